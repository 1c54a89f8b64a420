"""The epoch's mean loss and metrics without the steps that were skipped.

Keras averages over all steps, so that one NaN is the loss of its whole epoch: callbacks that watch
the loss, such as `ModelCheckpoint` and `ReduceLROnPlateau`, are blind in that epoch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
from keras import ops

from tfmp.loss_scaling import scaled_optimizers
from tfmp.shared.backend import Tensor, TensorTree

_STEP = "train_step"

# The sum of a mean, and the number of values in it.
_State = tuple[Tensor, Tensor]


def leave_out_skipped_steps(model: keras.Model) -> Callable[[], None]:
    """Lets the training steps that are traced from now on average finite values only.

    Validation still sees every value. The means of an epoch are NaN until its first finite step.

    Args:
        model: compiled, with the training function not made yet.

    Returns:
        A function that takes this back.
    """
    own = vars(model)
    before = own.get(_STEP)
    if hasattr(before, "instead_of"):  # a `fit` was interrupted
        before = before.instead_of
        _put(model, before)
    step = model.train_step

    def train_step(*arguments: TensorTree) -> Any:
        if not scaled_optimizers(model):
            return step(*arguments)  # a `fit` was interrupted, and the model reverted
        run = _jax_step if keras.backend.backend() == "jax" else _tensorflow_step
        return run(model, step, *arguments)

    train_step.instead_of = before  # type: ignore[attr-defined]

    def take_back() -> None:
        if own.get(_STEP) is train_step:
            _put(model, before)

    own[_STEP] = train_step
    return take_back


def _put(model: keras.Model, step: Callable[..., Any] | None) -> None:
    if step is None:
        vars(model).pop(_STEP, None)
    else:
        vars(model)[_STEP] = step


def _tensorflow_step(model: keras.Model, step: Callable[..., Any], batch: TensorTree) -> Any:
    means = list(_means(model.metrics))
    begun = [
        _begin_anew(ops.convert_to_tensor(mean.total), ops.convert_to_tensor(mean.count))
        for mean in means
    ]
    for mean, state in zip(means, begun, strict=True):
        _assign(mean, state)
    logs = step(batch)
    for mean, state in zip(means, begun, strict=True):
        _assign(
            mean,
            _finite_one(
                state, (ops.convert_to_tensor(mean.total), ops.convert_to_tensor(mean.count))
            ),
        )
    return _anew(model, logs)


def _jax_step(
    model: keras.Model, step: Callable[..., Any], state: tuple[TensorTree, ...], batch: TensorTree
) -> Any:
    variables = model.metrics_variables
    places = {id(variable): place for place, variable in enumerate(variables)}
    pairs = [
        (places[id(mean.total)], places[id(mean.count)])
        for mean in _means(model.metrics)
        if id(mean.total) in places
    ]
    *others, values = state
    values = list(values)
    for total, count in pairs:
        values[total], values[count] = _begin_anew(values[total], values[count])
    logs, (*others, after) = step((*others, values), batch)
    after = list(after)
    for total, count in pairs:
        after[total], after[count] = _finite_one(
            (values[total], values[count]), (after[total], after[count])
        )
    with keras.StatelessScope(state_mapping=list(zip(variables, after, strict=True))):
        logs = _anew(model, logs)
    return logs, (*others, after)


def _means(metrics: Iterable[keras.metrics.Metric]) -> Iterator[keras.metrics.Mean]:
    """The means among metrics, and among the metrics that these consist of."""
    for metric in metrics:
        if isinstance(metric, keras.metrics.Mean):
            yield metric
        else:
            yield from _means(getattr(metric, "metrics", ()))


def _begin_anew(total: Tensor, count: Tensor) -> _State:
    """The state before a step: without values if there was no finite one."""
    finite = ops.isfinite(total)
    return ops.where(finite, total, 0), ops.where(finite, count, 0)


def _finite_one(before: _State, after: _State) -> _State:
    """The state after a step: the one before it, if the step spoils a mean of finite values."""
    put_back = ops.logical_and(ops.logical_not(ops.isfinite(after[0])), before[1] > 0)
    return ops.where(put_back, before[0], after[0]), ops.where(put_back, before[1], after[1])


def _assign(mean: keras.metrics.Mean, state: _State) -> None:
    for variable, value in zip((mean.total, mean.count), state, strict=True):
        variable.assign(ops.cast(value, variable.dtype))


def _anew(model: keras.Model, logs: TensorTree) -> TensorTree:
    """A step's logs, read again if they are the metrics' results."""
    results = model.get_metrics_result()
    if isinstance(logs, dict) and logs.keys() == results.keys():
        return results
    return logs
