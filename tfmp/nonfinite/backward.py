"""The backward half of `locate_nonfinite`: the first gradient that is not finite, and why."""

import math
from dataclasses import dataclass, replace

from tfmp.loss_scaling import DynamicLossScale, without_bound
from tfmp.nonfinite import replay
from tfmp.nonfinite.finding import NonFinite, keep_advice, path_of, where
from tfmp.nonfinite.replay import Call, CallKey, Gradients, ReplayedStep
from tfmp.nonfinite.value_range import range_of
from tfmp.precision import LayerNode
from tfmp.precision.measuring import in_float32
from tfmp.shared.numerics import FLOAT16


def search_gradients(step: ReplayedStep, calls: list[Call], scale: float) -> NonFinite | None:
    """The first non-finite gradient, in the order of backpropagation, of `scale * loss`.

    Args:
        step: the step.
        calls: the layer calls of its forward pass, in order.
        scale: the loss scale.
    """
    probed = {call.key: call.float_outputs() for call in calls}
    first = _first_bad(step, calls, replay.gradients(step, probed, scale), scale)
    if first is None:
        return None
    node, what, is_steep = first.maker, first.what, first.is_steep
    finding = NonFinite(
        stage="gradient",
        cause="invalid",
        what=what,
        why="it is not finite in float32 without a loss scale either, like the derivative of a "
        "root at 0",
        advice="Keep the argument away from the point where the derivative is not finite, for "
        "example with ops.maximum(x, 1e-6) inside the root. A branch of ops.where that is not "
        "taken has a derivative, too.",
        layer=path_of(node),
        loss_scale=scale,
    )
    with in_float32(step.root.within()):
        if not _finite_at(step, 1.0):
            return finding
    finite_at = _largest_finite_scale(step, scale)
    if is_steep and (finite_at is None or finite_at < DynamicLossScale().min_scale):
        return replace(
            finding,
            cause="overflow",
            why="code in float32 computes it, and it exceeds 65504 even at a loss scale of 1",
            advice=keep_advice(first.receiver),
            layer=path_of(first.receiver),
            is_steep=True,
        )
    if finite_at is None:
        is_wide = node is not None and node.layer.compute_dtype == "float32"
        return replace(
            finding,
            cause="overflow",
            why="numbers of 16 bits make it so at every loss scale tried; in float32 it is finite",
            advice=finding.advice if is_wide else keep_advice(node),
        )
    return replace(
        finding,
        cause="loss scale",
        why=f"the loss scale of {scale:g} is too high for this batch; at {finite_at:g} all "
        "gradients are finite",
        advice=_scale_advice(finite_at),
        finite_at=finite_at,
    )


def _scale_advice(finite_at: float) -> str:
    if finite_at < DynamicLossScale().min_scale:
        exponent = round(math.log2(finite_at))
        return (
            "A dynamic loss scale stops at 1 by default. If other batches fail, "
            f"too, let it fall: loss_scale=tfmp.DynamicLossScale(min_scale=2.0**{exponent})."
        )
    return (
        "A dynamic loss scale skips the step and backs off by itself; a static one should be at "
        f"most {finite_at:g}."
    )


def _finite_at(step: ReplayedStep, scale: float) -> bool:
    gradients = replay.gradients(step, {}, scale)
    return all(range_of(g).finite for g in gradients.weights)


def _largest_finite_scale(step: ReplayedStep, scale: float) -> float | None:
    """The largest power of two below `scale` at which the gradients of all weights are finite."""
    # `fit` lets the scale of a large loss fall to this one.
    lowest = without_bound(DynamicLossScale()).floor
    low, high = math.floor(math.log2(lowest)), math.ceil(math.log2(scale))
    if high <= low or not _finite_at(step, 2.0**low):
        return None
    # A gradient that is finite at one scale is finite at all lower ones.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _finite_at(step, 2.0**middle) else (low, middle)
    return 2.0**low


@dataclass(frozen=True)
class _Bad:
    """The first non-finite gradient.

    Attributes:
        maker: the layer whose backward pass made it; None for the loss or the model's own code.
        what: a sentence about it.
        receiver: the layer whose result it is the gradient of; None if it is that of a weight.
        is_steep: whether the gradient from the loss fits, and code in float32 makes it too large
            for the receiver.
    """

    maker: LayerNode | None
    what: str
    receiver: LayerNode | None = None
    is_steep: bool = False


def _first_bad(
    step: ReplayedStep, calls: list[Call], gradients: Gradients, scale: float
) -> _Bad | None:
    """The first gradient that is not finite, in the order of backpropagation."""
    of_weight = {
        id(variable): gradient
        for variable, gradient in zip(
            step.model.trainable_variables, gradients.weights, strict=True
        )
    }
    fine: set[CallKey] = set()
    from_loss = math.inf
    for call in reversed(calls):
        present = [range_of(one) for one in gradients.outputs[call.key]]
        for values in present:
            if not values.finite:
                maker = _consumer(call, calls, fine)
                if maker is None:
                    through = "the model's own code" if fine else "the loss"
                else:
                    through = where(maker.node)
                bad = values.describe_bad()
                what = f"The gradient that {through} passes back to {where(call.node)} has {bad}"
                fits = from_loss < scale * FLOAT16.overflow_threshold
                is_steep = fits and _is_narrow(call) and not (maker and _is_narrow(maker))
                return _Bad(maker.node if maker else None, what, call.node, is_steep)
        if not fine:
            from_loss = max((values.magnitude for values in present), default=math.inf)
        fine.add(call.key)
        for variable in call.node.layer._trainable_variables:
            gradient = of_weight.get(id(variable))
            if gradient is not None and not range_of(gradient).finite:
                bad = range_of(gradient).describe_bad()
                return _Bad(call.node, f"The gradient of the weight {variable.path} has {bad}")
    for variable in step.model.trainable_variables:
        gradient = of_weight[id(variable)]
        if not range_of(gradient).finite:
            return _Bad(None, f"The gradient of the weight {variable.path} is not finite")
    return None


def _is_narrow(call: Call) -> bool:
    return call.node.layer.compute_dtype == "float16"


def _consumer(call: Call, calls: list[Call], fine: set[CallKey]) -> Call | None:
    """The call that took the result of this one and has a finite gradient of its own output."""
    results = set(map(id, call.float_outputs()))
    for other in calls:
        takes = any(id(tensor) in results for tensor in other.float_inputs())
        if takes and other.key in fine and other.key != call.key:
            return other
    return None
