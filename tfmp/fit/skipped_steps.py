"""Skipped steps leave no trace: neither in an epoch's loss and metrics, nor in the layers' states.

Keras averages over all steps, so that one NaN is the loss of its whole epoch: callbacks that watch
the loss, such as `ModelCheckpoint` and `ReduceLROnPlateau`, are blind in that epoch.

A forward pass that overflows writes NaN into `BatchNormalization`'s moving statistics and into the
states of recurrent layers, before the optimizer skips the step.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import keras
from keras import ops

from tfmp.loss_scaling import (
    LossScaleOptimizer,
    scaled_optimizers,
    watch_skips,
)
from tfmp.shared.backend import Backend, Tensor, TensorTree, current_backend

_STEP = "train_step"

# Values of variables, by id of the variable.
_Values = dict[int, Tensor]


def leave_out_skipped_steps(model: keras.Model) -> Callable[[], None]:
    """Lets training steps that are traced from now on keep nothing of a step that is skipped.

    States of layers are after a skipped step what they were before it; so are metrics, where the
    step made one of them NaN or infinite.

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
    run: Callable[..., Any] | None = None
    optimizer: keras.optimizers.Optimizer | None = None

    def train_step(*arguments: TensorTree) -> Any:
        nonlocal run, optimizer
        # Again for another optimizer: a `fit` may be interrupted, and the model reverted.
        if run is None or model.optimizer is not optimizer:
            optimizer = model.optimizer
            run = _guarded(model, step) if scaled_optimizers(model) else step
        return run(*arguments)

    train_step.instead_of = before  # type: ignore[attr-defined]

    def take_back() -> None:
        if own.get(_STEP) is train_step:
            _put(model, before)

    own[_STEP] = train_step
    return take_back


def _guarded(model: keras.Model, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step that keeps nothing of it if it is skipped."""
    if current_backend().is_stateless:
        return partial(_stateless_step, model, step)
    return _StepInPlace(model, step)


class _StepInPlace:
    """A step that writes variables.

    Where branches are Python's, the optimizers know when it ends whether they skipped it, and
    nothing is computed unless they did.
    """

    def __init__(self, model: keras.Model, step: Callable[..., Any]) -> None:
        self._model, self._step = model, step
        self._optimizers = scaled_optimizers(model)
        self._states: list[keras.Variable] | None = None

    def __call__(self, batch: TensorTree) -> Any:
        model, own = self._model, current_backend()
        if self._states is None or not own.picks_in_python:  # a trace may have made more
            _build_metrics(model, batch)
            self._states = _layers_states(model)
        metrics = _metrics_variables(model)
        before = _values([*self._states, *metrics])
        is_skipped = self._watch(own)
        logs = self._step(batch)
        skipped = is_skipped()
        if own.picks_in_python and not skipped:
            return logs
        # Constants, which may be large, are not written.
        written = [*own.maybe_assigned(self._states), *metrics]
        kept = _kept(skipped, model, before, _values(written))
        for variable in written:
            variable.assign(ops.cast(kept[id(variable)], variable.dtype))
        return _anew(model, logs)

    def _watch(self, own: Backend) -> Callable[[], Any]:
        if not own.picks_in_python:
            return watch_skips(self._optimizers)
        for optimizer in self._optimizers:
            optimizer.was_skipped = False
        return lambda: any(optimizer.was_skipped for optimizer in self._optimizers)


def _put(model: keras.Model, step: Callable[..., Any] | None) -> None:
    if step is None:
        vars(model).pop(_STEP, None)
    else:
        vars(model)[_STEP] = step


def _stateless_step(
    model: keras.Model, step: Callable[..., Any], state: tuple[TensorTree, ...], batch: TensorTree
) -> Any:
    optimizer = model.optimizer
    kinds = model.non_trainable_variables, model.metrics_variables
    states = {id(one) for one in (*_layers_states(model), *model.metrics_variables)}
    trainable, *others = state
    before = {id(one): value for one, value in _pairs(kinds, others[::2]) if id(one) in states}
    with _of_step(optimizer, others[1]):
        is_skipped = watch_skips([optimizer] if isinstance(optimizer, LossScaleOptimizer) else [])
    logs, (trainable, *after) = step((trainable, *others), batch)
    with _of_step(optimizer, after[1]):
        skipped = is_skipped()
    values = {id(one): value for one, value in _pairs(kinds, after[::2]) if id(one) in states}
    kept = _kept(skipped, model, before, values)
    after[::2] = [_replaced(*both, kept) for both in zip(kinds, after[::2], strict=True)]
    mapping = list(zip(model.metrics_variables, after[2], strict=True))
    with keras.StatelessScope(state_mapping=mapping):
        logs = _anew(model, logs)
    return logs, (trainable, *after)


def _kept(skipped: Tensor, model: keras.Model, before: _Values, after: _Values) -> _Values:
    """The values after a step; those before it of what it spoiled, if it was skipped."""
    metrics = {id(one) for one in _metrics_variables(model) if id(one) in before}
    spoiled: Tensor | bool = False
    for key in metrics:  # the loss may be finite where a gradient is not
        spoiled = ops.logical_or(spoiled, ops.any(ops.logical_not(ops.isfinite(after[key]))))
    spoiled = ops.logical_and(skipped, spoiled)
    return {
        key: ops.where(spoiled if key in metrics else skipped, before[key], value)
        if key in before
        else value
        for key, value in after.items()
    }


def _layers_states(model: keras.Model) -> list[keras.Variable]:
    """What the forward pass may write: neither weights, though frozen, nor seeds and counters.

    A sum over replicas is left out: each of them would add the value that it puts back.
    """
    layers = model._flatten_layers()
    every = [variable for layer in layers for variable in layer._non_trainable_variables]
    for layer in layers:
        if isinstance(layer, keras.layers.RNN) and layer.stateful:
            every += keras.tree.flatten(layer.states)  # Keras keeps these out of its lists
    return [
        variable
        for variable in every
        if "float" in variable.dtype
        and (variable.aggregation != "sum" or variable.synchronization == "on_read")
    ]


def _metrics_variables(model: keras.Model) -> list[keras.Variable]:
    return [variable for metric in _leaves(model.metrics) for variable in metric.variables]


def _leaves(metrics: Iterable[keras.metrics.Metric]) -> Iterator[keras.metrics.Metric]:
    """Metrics, and the metrics that others consist of."""
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        if inner is None:
            yield metric
        else:
            yield from _leaves(inner)


def _build_metrics(model: keras.Model, batch: TensorTree) -> None:
    """Makes the metrics' variables, which Keras may leave to the step that is being traced."""
    metrics = model._compile_metrics
    if metrics is None or metrics.built:
        return
    # Code of the user's own that takes no symbolic tensors makes them within the step.
    with suppress(Exception):
        model._symbolic_build(data_batch=batch)


def _values(variables: Iterable[keras.Variable]) -> _Values:
    return {id(one): current_backend().read(one) for one in variables}


def _pairs(
    kinds: Iterable[list[keras.Variable]], values: Iterable[list[Tensor]]
) -> Iterator[tuple[keras.Variable, Tensor]]:
    for variables, of_kind in zip(kinds, values, strict=True):
        yield from zip(variables, of_kind, strict=True)


def _replaced(variables: list[keras.Variable], old: list[Tensor], new: _Values) -> list[Tensor]:
    pairs = zip(variables, old, strict=True)
    return [ops.cast(new.get(id(one), value), one.dtype) for one, value in pairs]


def _of_step(optimizer: keras.optimizers.Optimizer, values: list[Tensor]) -> keras.StatelessScope:
    return keras.StatelessScope(state_mapping=list(zip(optimizer.variables, values, strict=True)))


def _anew(model: keras.Model, logs: TensorTree) -> TensorTree:
    """A step's logs, read again if they are the metrics' results."""
    results = model.get_metrics_result()
    if isinstance(logs, dict) and logs.keys() == results.keys():
        return results
    return logs
