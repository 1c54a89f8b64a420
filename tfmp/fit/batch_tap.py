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

# Takes the batches of one execution: more than one with `steps_per_execution`, and one for each
# replica of a distribution strategy.
Look = Callable[[list[Any]], None]


def tap_next_execution(model: keras.Model, look: Look) -> bool:
    """Has `look` see the batches of the next execution before they are trained on.

    Args:
        model: inside `fit`, its train function made.
        look: called once, with the batches as `fit` has them: (x, y), (x, y, sample_weight) or x.
            On data that turns out to be impossible to hand on unchanged, such as optional inputs,
            it is not called.

    Returns:
        False where replicas are on several machines: each has other data, and would see other
        things in it.
    """
    strategy = _strategy_of(model)
    if strategy is not None and not _is_on_one_machine(strategy):
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
        look(batches if strategy is None else _of_replicas(batches, strategy))
        # What `look` may have put there: a function traced anew, or another tap.
        return model.train_function(*state, _iterator_over(batches, like=iterator))

    model.train_function = tapped
    return True


def _strategy_of(model: keras.Model) -> Any:
    """TensorFlow's distribution strategy, where it has several replicas; else None."""
    strategy = getattr(model, "distribute_strategy", None)
    return strategy if strategy is not None and strategy.num_replicas_in_sync > 1 else None


def _is_on_one_machine(strategy: Any) -> bool:
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MirroredStrategy)


def _of_replicas(batches: list[Any], strategy: Any) -> list[Any]:
    """The batches of the single replicas, without the empty ones of replicas left over."""
    parts = []
    for batch in batches:
        leaves = [strategy.experimental_local_results(leaf) for leaf in tree.flatten(batch)]
        for of_replica in zip(*leaves, strict=True):
            if of_replica[0].shape[0]:
                parts.append(tree.pack_sequence_as(batch, of_replica))
    return parts


def _can_be_handed_on(iterator: Any) -> bool:
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        return True
    specs = tree.flatten(getattr(iterator, "element_spec", None))
    return isinstance(iterator, tf.data.Iterator) and all(
        isinstance(spec, tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec)
        for spec in specs
    )


def _iterator_over(batches: list[Any], like: Any) -> Iterator[Any]:
    if keras.backend.backend() != "tensorflow":
        return iter(batches)
    import tensorflow as tf

    if isinstance(like, tf.distribute.DistributedIterator):
        return iter(batches)  # Keras takes them step by step
    # The very same element spec, or the train function would be traced, and compiled, twice.
    return iter(
        tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=like.element_spec)
    )
