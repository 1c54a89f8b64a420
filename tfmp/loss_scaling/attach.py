"""Wraps a compiled model's optimizers in loss-scale optimizers, and unwraps them."""

from dataclasses import dataclass, replace

import keras

from tfmp.loss_scaling import wrapping
from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.optimizers_of import (
    Compiled,
    Place,
    has_own_step,
    held_optimizers,
    main_place,
    scaled_optimizers,
)
from tfmp.loss_scaling.strategies import (
    DynamicLossScale,
    LossScale,
    as_loss_scale,
    without_bound,
)
from tfmp.precision import reverting, switch_graph_rewrite
from tfmp.shared.backend import current_backend

_KEY = "optimizer"


def attach_loss_scale(model: keras.Model, loss_scale: LossScale | float | str) -> None:
    """Wraps the model's optimizers in `LossScaleOptimizer`s, their moments and iterations kept.

    These are `model.optimizer`, and those in attributes, lists and dicts that a `train_step` of the
    user's own works with.

    An optimizer that the user compiled as a `LossScaleOptimizer` of this package stays, unless
    `loss_scale` asks for another strategy than the default. Keras's own wrapper is replaced; its
    settings and its current scale are taken over. `tfmp.revert` undoes all of this.

    Args:
        model: a compiled model that has its weights.
        loss_scale: "dynamic", a number or a strategy object.

    Raises:
        ValueError: the model has no optimizer, or one that cannot be wrapped.
    """
    if model.optimizer is None:
        raise ValueError(
            f"Model {model.name!r} was compiled without an optimizer, so there is no step to "
            "scale. Compile it with one: model.compile(optimizer='adam', loss=...)."
        )
    _attach(model, main_place(model), loss_scale)
    places = held_optimizers(model)
    for place in places:
        _attach(model, place, loss_scale)
    every = scaled_optimizers(model)
    names = {id(place.optimizer): place.name for place in (*places, main_place(model))}
    for optimizer in every:
        optimizer.stands_beside(every, names[id(optimizer)])


def enable_mixed_precision_graph_rewrite(
    optimizer: keras.optimizers.Optimizer, loss_scale: LossScale | float | str = "dynamic"
) -> LossScaleOptimizer:
    """Switches the graph rewrite on for the process, and wraps an optimizer; for TensorFlow only.

    It does the work of `tf.train.experimental.enable_mixed_precision_graph_rewrite`, which takes no
    Keras 3 optimizer: TensorFlow's graphs compute in FP16 on GPUs from now on, unless XLA compiles
    them. `tfmp.graph_rewrite` does the same within a block.

    Args:
        optimizer: a Keras optimizer without loss scaling.
        loss_scale: "dynamic", a number or a strategy object.

    Returns:
        The optimizer to compile with, or to write a loop with.

    Raises:
        ValueError: Keras runs on another backend, or the optimizer cannot be wrapped.
    """
    if not current_backend().rewrites_graphs:
        raise ValueError(
            "enable_mixed_precision_graph_rewrite expects Keras on TensorFlow, whose graphs it "
            f"rewrites, received the backend {current_backend().name!r}. Use "
            "tfmp.MixedPrecision() or tfmp.plan(model).apply(), which work on any backend of tfmp."
        )
    wrapped = LossScaleOptimizer(optimizer, loss_scale)
    switch_graph_rewrite("float16")
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Switches the graph rewrite off for the process; wrapped optimizers stay as they are."""
    switch_graph_rewrite("off")


def _attach(model: keras.Model, place: Place, loss_scale: LossScale | float | str) -> None:
    """Wraps an optimizer; one that is at several places gets one wrapper.

    The model's own is built for all its weights, the others by their first step.
    """
    before = place.optimizer
    key = f"{_KEY} {id(place.holder)} {place.name}"
    record = _record_of(model, key, before)
    strategy = _strategy_for(before, loss_scale)
    is_ours = isinstance(before, LossScaleOptimizer)
    inner = before
    if isinstance(before, keras.optimizers.LossScaleOptimizer):
        inner = before.inner_optimizer
    # A step of the user's own may move a part of the weights.
    moves_all = place.is_main and not (inner.built and has_own_step(model))
    if moves_all and inner.built:
        wrapping.check_known(inner, model.trainable_variables)
    if is_ours and (before.loss_scale == strategy or (record is None and loss_scale == "dynamic")):
        if moves_all:
            before.build(model.trainable_variables)
        return
    wrapped = None if place.is_main else wrapping.wrapper_of(inner)
    if wrapped is before or not isinstance(wrapped, LossScaleOptimizer):
        if is_ours:
            before.unwrap()
        wrapped = LossScaleOptimizer(inner, strategy)
    if moves_all:
        wrapped.build(model.trainable_variables)
    elif inner.built:
        wrapped.build(inner._trainable_variables)
    if loss_scale == "dynamic" and not is_ours:
        _take_over_scale(before, wrapped)
    record = record or _Restore(place, before, wrapped, place.in_config)
    reverting.steps_of(model)[key] = replace(record, ours=wrapped)
    place.put(wrapped, in_config=wrapped)


def detach_loss_scale(model: keras.Model) -> None:
    """Undoes `attach_loss_scale`, if it was called for the model."""
    reverting.undo_steps(model)


@dataclass(frozen=True)
class _Restore:
    """Gives a model back an optimizer.

    Attributes:
        place: where the model holds it.
        before: the optimizer before the first wrapping.
        ours: the latest wrapper that this package put in its place.
        in_config: the optimizer in the model's compile config, as it was.
    """

    place: Place
    before: keras.optimizers.Optimizer
    ours: LossScaleOptimizer
    in_config: Compiled

    def __call__(self, model: keras.Model) -> None:
        if self.place.optimizer is not self.ours:
            return  # replaced since: that optimizer is the user's choice
        inner = self.ours.unwrap()
        if isinstance(self.before, LossScaleOptimizer):
            wrapping.claim(inner, self.before)
        self.place.put(self.before, in_config=self.in_config)


def _record_of(model: keras.Model, key: str, ours: keras.optimizers.Optimizer) -> _Restore | None:
    """The record of the wrapper that this package put in a place; None for a user's optimizer."""
    record = reverting.steps_of(model).get(key)
    return record if isinstance(record, _Restore) and record.ours is ours else None


def _strategy_for(
    before: keras.optimizers.Optimizer, loss_scale: LossScale | float | str
) -> LossScale:
    is_keras_own = isinstance(before, keras.optimizers.LossScaleOptimizer)
    if loss_scale == "dynamic" and is_keras_own and not isinstance(before, LossScaleOptimizer):
        default = DynamicLossScale()
        return DynamicLossScale(
            initial=min(max(before.initial_scale, default.min_scale), default.max_scale),
            growth_interval=before.dynamic_growth_steps,
        )
    strategy = as_loss_scale(loss_scale)
    if isinstance(before, LossScaleOptimizer) and before.loss_scale == without_bound(strategy):
        return before.loss_scale  # the bound proved too high in earlier training
    return strategy


def _take_over_scale(before: keras.optimizers.Optimizer, wrapped: LossScaleOptimizer) -> None:
    if isinstance(before, keras.optimizers.LossScaleOptimizer) and before.built:
        saved = float(keras.ops.convert_to_numpy(before.dynamic_scale))
        wrapped.scale_variable.assign(wrapped.loss_scale.restore(saved))
        wrapped.step_counter.assign(before.step_counter)
