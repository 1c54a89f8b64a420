"""Sees the batches that `fit` trains on next, without a change to the training itself.

Keras gives callbacks no data. `fit` looks its `train_function` up at every execution, though, so a
function put in its place for one execution can take the batches from the iterator, show them, and
hand them on.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import keras
from keras import tree

# Takes the batches of one execution: more than one with `steps_per_execution`.
Look = Callable[[list[Any]], None]


def tap_next_execution(model: keras.Model, look: Look) -> bool:
    """Has `look` see the batches of the next execution before they are trained on.

    Args:
        model: inside `fit`, its train function made.
        look: called once, with the batches as `fit` has them: (x, y), (x, y, sample_weight) or x.
            On data that turns out to be impossible to hand on unchanged, such as optional inputs,
            it is not called.

    Returns:
        False under a distribution strategy: the data has no single place there.
    """
    if _is_distributed(model):
        return False
    function = model.train_function

    def tapped(*arguments: Any) -> Any:
        *state, iterator = arguments
        if model.train_function is tapped:
            model.train_function = function
        if not _can_be_handed_on(iterator):
            return function(*arguments)
        batches = list(islice(iterator, model.steps_per_execution))
        if not batches:
            raise StopIteration
        look(batches)
        return function(*state, _iterator_over(batches, like=iterator))

    model.train_function = tapped
    return True


def _is_distributed(model: keras.Model) -> bool:
    strategy = getattr(model, "distribute_strategy", None)
    return strategy is not None and strategy.num_replicas_in_sync > 1


def _can_be_handed_on(iterator: Any) -> bool:
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    specs = tree.flatten(getattr(iterator, "element_spec", None))
    return isinstance(iterator, tf.data.Iterator) and all(
        isinstance(spec, tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec)
        for spec in specs
    )


def _iterator_over(batches: list[Any], like: Any) -> Iterator[Any]:
    if keras.backend.backend() != "tensorflow":
        return iter(batches)
    import tensorflow as tf

    # The very same element spec, or the train function would be traced, and compiled, twice.
    return iter(
        tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=like.element_spec)
    )
