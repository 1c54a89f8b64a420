"""Skipped steps leave no trace: neither in an epoch's loss and metrics, nor in the layers' states.

Keras averages over all steps, so that one NaN is the loss of its whole epoch: callbacks that watch
the loss, such as `ModelCheckpoint` and `ReduceLROnPlateau`, are blind in that epoch.

A forward pass that overflows writes NaN into `BatchNormalization`'s moving statistics and into the
states of recurrent layers, before the optimizer skips the step.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import keras
from keras import ops

from tfmp.loss_scaling import (
    LossScaleOptimizer,
    maybe_assigned,
    scaled_optimizers,
    watch_skips,
)
from tfmp.shared.backend import Tensor, TensorTree

_STEP = "train_step"

# Values of variables, by id of the variable.
_Values = dict[int, Tensor]


def leave_out_skipped_steps(model: keras.Model) -> Callable[[], None]:
    """Lets training steps that are traced from now on keep nothing of a step that is skipped.

    Metrics see finite values only, except in validation. The means of an epoch are NaN until its
    first finite step; other metrics stay as they were before a step that spoils them. States of
    layers are after a skipped step what they were before it.

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
    _build_metrics(model, batch)
    states = _States(model)
    # Not `convert_to_tensor`, which would return the TensorFlow variable itself.
    begun = states.begin_anew({id(one): ops.stop_gradient(one) for one in states.variables})
    _assign(states.means_variables, begun)
    logs = _with_layers_kept(model, step, batch)
    after = {id(one): ops.stop_gradient(one) for one in states.variables}
    _assign(states.variables, states.finite_ones(begun, after))
    return _anew(model, logs)


def _with_layers_kept(model: keras.Model, step: Callable[..., Any], batch: TensorTree) -> Any:
    layers_states = _layers_states(model)
    if not layers_states:
        return step(batch)
    is_skipped = watch_skips(scaled_optimizers(model))
    before = {id(one): ops.stop_gradient(one) for one in layers_states}
    logs = step(batch)
    # Constants, which may be large, are not written.
    written = maybe_assigned(layers_states)
    if written:
        skipped = is_skipped()
        _assign(
            written,
            {id(v): ops.where(skipped, before[id(v)], ops.stop_gradient(v)) for v in written},
        )
    return logs


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


def _build_metrics(model: keras.Model, batch: TensorTree) -> None:
    """Makes the metrics' variables, which Keras may leave to the step that is being traced."""
    metrics = model._compile_metrics
    if metrics is None or metrics.built:
        return
    # Code of the user's own that takes no symbolic tensors makes them within the step.
    with suppress(Exception):
        model._symbolic_build(data_batch=batch)


def _jax_step(
    model: keras.Model, step: Callable[..., Any], state: tuple[TensorTree, ...], batch: TensorTree
) -> Any:
    variables = model.metrics_variables
    states = _States(model, set(map(id, variables)))

    def with_values(old: Iterable[Tensor], new: _Values) -> list[Tensor]:
        pairs = zip(variables, old, strict=True)
        return [ops.cast(new.get(id(one), value), one.dtype) for one, value in pairs]

    *before, values = state
    begun = states.begin_anew(dict(zip(map(id, variables), values, strict=True)))
    logs, (*others, after) = step((*before, with_values(values, begun)), batch)
    others = _with_states_before(model, before, others)
    kept = states.finite_ones(begun, dict(zip(map(id, variables), after, strict=True)))
    after = with_values(after, kept)
    with keras.StatelessScope(state_mapping=list(zip(variables, after, strict=True))):
        logs = _anew(model, logs)
    return logs, (*others, after)


def _with_states_before(
    model: keras.Model, before: list[TensorTree], after: list[TensorTree]
) -> list[TensorTree]:
    """The variables after a step, with the layers' states before it if the step was skipped."""
    optimizer = model.optimizer
    names = set(map(id, _layers_states(model)))
    if not names or not isinstance(optimizer, LossScaleOptimizer):
        return after
    trainable, new, own = after

    def of_step(values: TensorTree) -> keras.StatelessScope:
        return keras.StatelessScope(
            state_mapping=list(zip(optimizer.variables, values, strict=True))
        )

    with of_step(before[2]):
        is_skipped = watch_skips([optimizer])
    with of_step(own):
        skipped = is_skipped()
    kept = [
        ops.where(skipped, old, value) if id(variable) in names else value
        for variable, old, value in zip(model.non_trainable_variables, before[1], new, strict=True)
    ]
    return [trainable, kept, own]


class _States:
    """The states of a model's metrics, around a step that may spoil them.

    Attributes:
        variables: the variables of all metrics that can be spoiled.
        means_variables: those of the means among them.
    """

    def __init__(self, model: keras.Model, known: set[int] | None = None) -> None:
        every = [
            metric
            for metric in _leaves(model.metrics)
            if known is None or known.issuperset(map(id, metric.variables))
        ]
        self._means = [metric for metric in every if isinstance(metric, keras.metrics.Mean)]
        self._others = [metric for metric in every if not isinstance(metric, keras.metrics.Mean)]
        self._loss = getattr(model, "_loss_tracker", None)
        self.means_variables = [v for mean in self._means for v in (mean.total, mean.count)]
        others = [variable for metric in self._others for variable in metric.variables]
        self.variables = [*self.means_variables, *others]

    def begin_anew(self, now: _Values) -> _Values:
        """The values before a step: means without values if there was no finite one."""
        begun = dict(now)
        for mean in self._means:
            finite = ops.isfinite(now[id(mean.total)])
            for variable in (mean.total, mean.count):
                begun[id(variable)] = ops.where(finite, now[id(variable)], 0)
        return begun

    def finite_ones(self, before: _Values, after: _Values) -> _Values:
        """The values after a step: those before it, of metrics that the step spoils.

        A loss that is not finite spoils all metrics: their values come from the same outputs. A
        mean that has had no finite value yet stays spoiled, so that nobody takes it for a 0.
        """
        bad_loss: Tensor | bool = False
        if self._loss is not None and id(self._loss.total) in before:
            bad_loss = ops.logical_not(ops.isfinite(after[id(self._loss.total)]))
        kept = dict(after)

        def put_back(metric: keras.metrics.Metric, spoiled: Tensor | bool) -> None:
            for variable in metric.variables:
                key = id(variable)
                if key in before:
                    kept[key] = ops.where(spoiled, before[key], after[key])

        for mean in self._means:
            finite = ops.isfinite(after[id(mean.total)])
            put_back(mean, ops.where(finite, bad_loss, before[id(mean.count)] > 0))
        for metric in self._others:
            spoiled = bad_loss
            for variable in metric.variables:
                if "float" in variable.dtype:
                    old, new = before[id(variable)], after[id(variable)]
                    odd = ops.logical_and(ops.logical_not(ops.isfinite(new)), new != old)
                    spoiled = ops.logical_or(spoiled, ops.any(odd))
            put_back(metric, spoiled)
        return kept


def _leaves(metrics: Iterable[keras.metrics.Metric]) -> Iterator[keras.metrics.Metric]:
    """Metrics, and the metrics that others consist of."""
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        if inner is None:
            yield metric
        else:
            yield from _leaves(inner)


def _assign(variables: Iterable[keras.Variable], values: _Values) -> None:
    for variable in variables:
        variable.assign(ops.cast(values[id(variable)], variable.dtype))


def _anew(model: keras.Model, logs: TensorTree) -> TensorTree:
    """A step's logs, read again if they are the metrics' results."""
    results = model.get_metrics_result()
    if isinstance(logs, dict) and logs.keys() == results.keys():
        return results
    return logs
