"""ScaleWatch: finds out whether another loss scale would keep gradients that this one loses."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import tree

from tfmp.calibration import GradientReport, NoFloat16GradientsError, calibrate
from tfmp.fit.large_inputs import is_float
from tfmp.loss_scaling import (
    DynamicLossScale,
    GradientHealth,
    LossScale,
    scaled_optimizers,
    without_bound,
)
from tfmp.nonfinite import (
    Vanished,
    has_own_gradients,
    locate_nonfinite,
    unscalable_gradients,
    vanished_gradients,
)
from tfmp.precision import layer_tree
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.findings import Finding
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.wording import listed

UNDERFLOW = "underflow"
VANISHING = "vanishing gradients"
HIGH_SCALE = "high loss scale"
UNSCALABLE = "gradients that cannot be scaled"

# Replays cost seconds for a large model. Zeros that are zero in float32 too are likely to stay.
_MOST_REPLAYS = 3

# The estimate from which on a batch is replayed, and the measured shares that are worth a finding:
# the smallest values of a gradient that fits are lost at every scale, and do no harm.
_SUSPICIOUS_SHARE = 0.01
_LOST_SHARE = 0.1
_LOST_SHARE_OF_LAYER = 0.5

# The usual scale times the derivative of a squared error of this size is 64 times past 65504: the
# first steps of a `fit` would be skipped one after another.
_LARGE_TARGETS = 2.0**6

# In a longer `fit` the steps that the scale needs to fall cost less than replays.
_SHORT_FIT_STEPS = 1000

# Room for gradients larger than the measured ones, as in `tfmp.calibrate`.
_MARGIN = 8.0


class ScaleWatch:
    """Judges the gauges of the gradients during one `fit`; each finding comes once.

    Args:
        model: the model in `fit`, with FP16 layers and a `LossScaleOptimizer`.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._batch: TensorTree = None
        self._replays_left = _MOST_REPLAYS
        self._judged_at = -1
        self._told: set[str] = set()

    def hold(self, batch: TensorTree) -> None:
        """Keeps a batch of the data for replays."""
        self._batch = batch

    def own_gradients(self) -> Finding | None:
        """The finding about code of the model that a loss scale misleads."""
        if not has_own_gradients(self._model):
            return None
        optimizer = scaled_optimizers(self._model)[0]
        scale = optimizer.initial_scale
        if optimizer.built:
            scale = float(keras.ops.convert_to_numpy(optimizer.scale_variable))
        if scale == 1.0:
            return None
        x, y, weight = keras.utils.unpack_x_y_sample_weight(self._batch)
        try:
            names = unscalable_gradients(self._model, x, y, weight, scale)
        except Exception:
            return None  # a step that cannot be replayed
        if not names:
            return None
        self._told |= {UNDERFLOW, VANISHING}  # a higher scale is no way out
        return unscalable(names)

    def begin_lower(self, steps: int | None) -> float | None:
        """Lowers the usual scale to the one that a large loss needs, before the first step.

        Targets or sample weights of which half are large, large weights of losses, or a loss that
        is a sum over the batch tell that all batches need it; one odd row does not.

        Args:
            steps: those of the `fit`; None, as of a generator, may be few.

        Returns:
            The new scale; None if it stays. The model's functions have to be traced anew.
        """
        optimizers = scaled_optimizers(self._model)
        if len(optimizers) != 1 or (steps is not None and steps > _SHORT_FIT_STEPS):
            return None
        (optimizer,) = optimizers
        usual = DynamicLossScale()
        if optimizer.loss_scale not in (usual, without_bound(usual)) or not optimizer.built:
            return None
        if float(keras.ops.convert_to_numpy(optimizer.scale_variable)) != usual.initial:
            return None
        x, y, weight = keras.utils.unpack_x_y_sample_weight(self._batch)
        try:
            if not any(map(_is_large, tree.flatten((y, weight)))) and not _sums_loss(self._model):
                return None
            fitting = locate_nonfinite(self._model, x, y, weight, usual.initial).finite_at
        except Exception:
            return None  # a step that cannot be replayed
        if fitting is None:
            return None
        lowered = max(fitting / _MARGIN, without_bound(usual).floor)
        if lowered < usual.min_scale:
            optimizer.loss_scale = without_bound(usual)
        optimizer.scale_variable.assign(lowered)
        return lowered

    def look(self, health: GradientHealth) -> list[Finding]:
        """The findings of a measurement; called when the device can be read."""
        if health.step == self._judged_at:
            return []
        self._judged_at = health.step
        strategy = scaled_optimizers(self._model)[0].loss_scale
        found = [*self._lost_gradients(health, strategy), high_scale(health, strategy)]
        new = [finding for finding in found if finding and finding.check not in self._told]
        self._told.update(finding.check for finding in new)
        return new

    def _lost_gradients(self, health: GradientHealth, strategy: LossScale) -> list[Finding | None]:
        """Replays a batch in float32 where the gauges are suspicious."""
        told = {UNDERFLOW, VANISHING} & self._told
        if told or not self._replays_left or not _is_suspicious(health):
            return []
        self._replays_left -= 1
        x, y, weight = keras.utils.unpack_x_y_sample_weight(self._batch)
        try:
            measured = calibrate(self._model, [(x, y, weight)], batches=1, margin=_MARGIN)
            underflow = measured_underflow(measured, health.loss_scale, strategy)
            if underflow or all(row.zeros < 1.0 for row in health.variables):
                return [underflow]
            return [vanishing(vanished_gradients(self._model, x, y, weight, health.loss_scale))]
        except NoFloat16GradientsError:
            return []
        except Exception:
            # A step of the user's own may have another loss, or none that can be replayed.
            return [_estimated_underflow(health, strategy)]


def _is_large(target: Tensor | None) -> bool:
    if not is_float(target):
        return False
    typical = np.median(np.abs(np.asarray(keras.ops.convert_to_numpy(target), np.float64)))
    return bool(typical >= _LARGE_TARGETS)


def _sums_loss(model: keras.Model) -> bool:
    """Whether a loss is a sum over the batch, or has a weight as large as that."""
    weights = tree.flatten(model._compile_config.config.get("loss_weights"))
    if any(isinstance(one, int | float) and abs(one) >= _LARGE_TARGETS for one in weights):
        return True
    return any(getattr(loss, "reduction", "") == "sum" for loss in tree.flatten(model.loss))


def _is_suspicious(health: GradientHealth) -> bool:
    return health.underflow > _SUSPICIOUS_SHARE or any(
        row.zeros == 1.0 or row.underflow > _LOST_SHARE_OF_LAYER for row in health.variables
    )


def measured_underflow(
    measured: GradientReport, scale: float, strategy: LossScale
) -> Finding | None:
    """The finding about gradients that were measured in float32; None if few are lost at a scale.

    Args:
        measured: the gradients of a batch.
        scale: the loss scale of the training.
        strategy: the strategy that moves it.
    """
    narrow = [row for row in measured.layers if row.narrow]
    shares = {row.path: row.histogram.underflow(scale) for row in narrow}
    sizes = {row.path: row.histogram.values - row.histogram.zeros for row in narrow}
    share = sum(shares[path] * sizes[path] for path in shares) / max(1, sum(sizes.values()))
    gone = [path for path, lost in shares.items() if lost >= _LOST_SHARE_OF_LAYER]
    better = measured.recommended_scale
    if better <= scale or (share < _LOST_SHARE and not gone):
        return None
    return _lost(
        f"{share:.0%} of the gradient values of the first batch are 0",
        gone,
        scale,
        better,
        strategy,
    )


def unscalable(names: Sequence[str]) -> Finding:
    """The finding about gradients that do not grow with the loss."""
    return Finding(
        UNSCALABLE,
        "warning",
        f"The gradients of {listed(names, 3)} do not grow with the loss scale: a custom gradient "
        "clips or changes them by fixed amounts. The loss scale is 1 from here on, so small "
        "gradients may be lost in FP16",
        "Pass policy='mixed_bfloat16', which needs no loss scale, or let that gradient do without "
        "fixed amounts",
    )


def vanishing(found: Vanished | None) -> Finding | None:
    """The finding about gradients that no loss scale keeps."""
    if found is None:
        return None
    fix = "Cast in its own code, keras.ops.cast(x, 'float32'), before it squares or divides"
    if found.layer != layer_tree.ROOT:
        fix = f"Keep it in float32: keep_float32=[{found.layer!r}]"
    return Finding(
        VANISHING,
        "problem",
        f"The gradients of {listed(found.variables, 3)} are 0 in FP16 but not in float32, whatever "
        f"the loss scale is: the result of {layer_tree.describe(found.layer)} is wrong in FP16, "
        "such as a quotient by a norm that is infinite there",
        fix,
    )


def _estimated_underflow(health: GradientHealth, strategy: LossScale) -> Finding | None:
    """The finding from the gauges of the weights' gradients alone."""
    gone = [row.variable for row in health.variables if row.underflow >= _LOST_SHARE_OF_LAYER]
    better = _fitting(health)
    if better is None or better <= health.loss_scale:
        return None
    if health.underflow < _LOST_SHARE and not gone:
        return None
    text = f"about {health.underflow:.0%} of the gradient values of step {health.step + 1} are 0"
    return _lost(text, gone, health.loss_scale, better, strategy)


def _lost(
    text: str, gone: Sequence[str], scale: float, better: float, strategy: LossScale
) -> Finding:
    where = f" (most of them in {listed(gone, 3)})" if gone else ""
    return Finding(
        UNDERFLOW,
        "problem" if gone else "warning",
        f"At loss scale {scale:g} {text} in FP16 but not in float32{where}",
        f"Raise the scale to {_power(better)}: {_argument(better, strategy)}",
    )


def high_scale(health: GradientHealth, strategy: LossScale) -> Finding | None:
    """The finding about a fixed scale at which gradients all but overflow; others back off."""
    better = _fitting(health)
    if isinstance(strategy, DynamicLossScale) or better is None or health.headroom_bits >= 1:
        return None
    if better >= health.loss_scale:
        return None
    return Finding(
        HIGH_SCALE,
        "warning",
        f"At loss scale {health.loss_scale:g} a gradient of step {health.step + 1} reaches "
        f"{health.largest:.3g}, and steps past 65504 are skipped",
        f"Lower the scale to {_power(better)}: {_argument(better, strategy)}",
    )


def _fitting(health: GradientHealth) -> float | None:
    """The largest power of two that leaves room above the largest gradient."""
    if not health.largest:
        return None
    unscaled = health.largest / health.loss_scale
    return 2.0 ** math.floor(math.log2(FLOAT16.max / (_MARGIN * unscaled)))


def _power(scale: float) -> str:
    return f"2^{math.log2(scale):.0f}"


def _argument(scale: float, strategy: LossScale) -> str:
    power = f"2.0**{math.log2(scale):.0f}"
    if not isinstance(strategy, DynamicLossScale):
        return f"loss_scale={power}"
    # Room to grow: gradients shrink with the loss.
    top = max(scale * 2.0**8, strategy.max_scale)
    return f"loss_scale=tfmp.DynamicLossScale(initial={power}, max_scale=2.0**{math.log2(top):.0f})"
