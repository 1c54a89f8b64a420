"""Shows the batches that `fit` trains on next, without changing the training.

Keras gives callbacks no data. But `fit` looks its `train_function` up at every execution: a
function that takes its place for one execution can take the batches from the iterator, show them,
and hand them on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import keras
from keras import tree

from tfmp.shared.backend import TensorTree, current_backend

if TYPE_CHECKING:
    import tensorflow as tf

# The parts of the state that Keras hands a train function on JAX, in their order.
_JAX_STATE = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)

# Takes the batches of one execution: more than one with `steps_per_execution`, and one for each
# replica of a distribution strategy.
Look = Callable[[list[TensorTree]], None]


def tap_next_execution(
    model: keras.Model, look: Look, note: str = "", again: Callable[[], bool] | None = None
) -> bool:
    """Calls `look` with the batches of the next execution before `fit` trains on them.

    On JAX, the model also has its weights again after any error of that execution: Keras takes them
    out of the variables before the first step of a `fit`, and would lose them.

    Args:
        model: a model inside `fit` that has its train function.
        look: called once, with the batches as `fit` has them: (x, y), (x, y, sample_weight) or x.
            It is not called for data that cannot be handed on unchanged, such as optional inputs.
        note: for the error that the execution may raise.
        again: called after the execution, whether the model is to train on the batches again.

    Returns:
        False if replicas are on several machines: each has other data and would see other values.
    """
    strategy = _strategy_of(model)
    if strategy is not None and not _is_on_one_machine(strategy):
        return False
    own, function = current_backend(), model.train_function

    def tapped(*arguments: TensorTree) -> TensorTree:
        *state, given = arguments
        iterator = given
        batches: list[TensorTree] = []
        if model.train_function is tapped:
            model.train_function = function
        if own.can_be_fed_again(given):
            batches = own.fed(given, model.steps_per_execution)
            if not batches:
                raise StopIteration
            with _state_in_variables(model, state):
                look(batches if strategy is None else _of_replicas(batches, strategy))
            state = _state_again(model, state)
            iterator = own.feed(batches, like=given)
        try:
            # `look` may have put another one there: a function traced anew, or another tap.
            made = model.train_function(*state, iterator)
            while batches and again is not None:
                state = [made[1]] if state else []
                with _state_in_variables(model, state):
                    is_over = not again()
                state = _state_again(model, state)
                if is_over:
                    return (made[0], *state) if state else made
                made = model.train_function(*state, own.feed(batches, like=given))
            return made
        except Exception as error:
            _hand_state_back(model, state)
            if note and not isinstance(error, StopIteration):
                error.add_note(note)
            raise

    model.train_function = tapped
    return True


@contextmanager
def _state_in_variables(model: keras.Model, state: list[TensorTree]) -> Iterator[None]:
    """Gives the variables their values, which Keras takes out of them while `fit` runs on JAX."""
    if not current_backend().is_stateless:
        yield
        return
    model._jax_state = dict(zip(_JAX_STATE, state[0], strict=True))
    model.jax_state_sync()
    yield  # after an error they keep them: `fit` is over


def _state_again(model: keras.Model, state: list[TensorTree]) -> list[TensorTree]:
    """The state that `fit` is to go on with: the model may have another loss scale."""
    if not current_backend().is_stateless:
        return state
    model._jax_state_synced = False
    return [model._get_jax_state(**dict.fromkeys((*_JAX_STATE, "purge_model_variables"), True))]


def _hand_state_back(model: keras.Model, state: list[TensorTree]) -> None:
    """Lets `fit` put the state of a failed step into the variables, as it does when it ends."""
    if not current_backend().is_stateless:
        return
    if not any(value.is_deleted() for value in tree.flatten(state)):
        model._jax_state = dict(zip(_JAX_STATE, state[0], strict=True))


def _strategy_of(model: keras.Model) -> "tf.distribute.Strategy | None":
    """TensorFlow's distribution strategy if it has several replicas; otherwise None."""
    strategy = getattr(model, "distribute_strategy", None)
    return strategy if strategy is not None and strategy.num_replicas_in_sync > 1 else None


def _is_on_one_machine(strategy: "tf.distribute.Strategy") -> bool:
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MirroredStrategy)


def _of_replicas(batches: list[TensorTree], strategy: "tf.distribute.Strategy") -> list[TensorTree]:
    """The batches of the single replicas, without empty ones."""
    parts = []
    for batch in batches:
        leaves = [strategy.experimental_local_results(leaf) for leaf in tree.flatten(batch)]
        for of_replica in zip(*leaves, strict=True):
            if of_replica[0].shape[0]:
                parts.append(tree.pack_sequence_as(batch, of_replica))
    return parts
