"""locate_nonfinite: the first value in a training step that is not finite, why, and the cure."""

import keras
from keras import ops

from tfmp.nonfinite import replay
from tfmp.nonfinite.backward import search_gradients
from tfmp.nonfinite.finding import NonFinite
from tfmp.nonfinite.forward import (
    ForwardWatch,
    FoundInForward,
    search_data,
    search_loss,
    search_variables,
)
from tfmp.nonfinite.value_range import range_of
from tfmp.shared.backend import TensorTree


def locate_nonfinite(
    model: keras.Model,
    x: TensorTree,
    y: TensorTree = None,
    sample_weight: TensorTree = None,
    loss_scale: float | None = None,
) -> NonFinite:
    """Replays a training step on a batch and names the first value in it that is not finite.

    The search looks at the data, the weights, the layers' outputs in the order of computation, the
    loss, the gradients from the loss back, and the state that layers keep. The model is not
    changed.

    Args:
        model: compiled and built, in the dtypes that it trains in.
        x, y, sample_weight: one batch, as `fit` would get it.
        loss_scale: number to multiply the loss by; by default the optimizer's current scale.

    Returns:
        The finding; its `str` is a paragraph for a person. It is false if all values are finite.

    Raises:
        TypeError, ValueError: the model is not a compiled and built Keras model with a loss, or
            cannot train on this batch.
    """
    step = replay.make_step(model, x, y, sample_weight)
    scale = _current_scale(model) if loss_scale is None else float(loss_scale)
    found = search_data(step.x, step.y, step.sample_weight)
    found = found or search_variables(step, "weight")
    if found:
        return found
    watch = ForwardWatch()
    try:
        with replay.mistakes_of_batch(model):
            outputs, loss = replay.run(step, watch.see)
    except FoundInForward as stop:
        # Without a layer the model's own code is to blame, and no state of one layer.
        layer = stop.finding.layer
        return (layer and search_variables(step, "state", layer)) or stop.finding
    if not range_of(loss).finite:
        return search_loss(step, outputs)
    found = search_gradients(step, watch.calls, scale) or search_variables(step, "state")
    return found or NonFinite(
        stage="none",
        cause="none",
        what=f"All values are finite at loss scale {scale:g}",
        why="",
        advice="Replay the batch that failed, with the weights and the loss scale of that step.",
        loss_scale=scale,
    )


def _current_scale(model: keras.Model) -> float:
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        scale = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
        return float(ops.convert_to_numpy(scale))
    return float(getattr(optimizer, "loss_scale_factor", None) or 1.0)
