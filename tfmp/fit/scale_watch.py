"""ScaleWatch: finds out whether another loss scale would keep gradients that this one loses."""

import math
from collections.abc import Sequence

import keras

from tfmp.fit.preflight import UNSCALABLE, UNSCALED_STEP
from tfmp.fit.recorder import FitRecorder
from tfmp.loss_scaling import (
    DynamicLossScale,
    GradientHealth,
    LossScale,
    has_own_step,
)
from tfmp.nonfinite import LostGradient, lost_gradients
from tfmp.shared.backend import TensorTree
from tfmp.shared.findings import Finding
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.wording import listed

UNDERFLOW = "underflow"
CLIPPING = "clipping of scaled gradients"

# Replays cost seconds for a large model. Zeros that are zero in float32 too are likely to stay.
_MOST_REPLAYS = 3

# The estimate from which on a batch is replayed, and the measured shares that are worth a finding:
# the smallest values of a gradient that fits are lost at every scale, and do no harm.
_SUSPICIOUS_SHARE = 0.01
_LOST_SHARE = 0.1
_LOST_SHARE_OF_LAYER = 0.5

# Room for gradients larger than the measured ones, as in `tfmp.calibrate`.
_MARGIN = 8.0


class ScaleWatch:
    """Judges the gauges of the gradients during one `fit`; each finding comes once.

    Args:
        model: the model in `fit`, with FP16 layers and a `LossScaleOptimizer`.
        recorder: gets the findings.
    """

    def __init__(self, model: keras.Model, recorder: FitRecorder) -> None:
        self._model = model
        self._recorder = recorder
        self._batch: tuple[TensorTree, TensorTree, TensorTree] = (None, None, None)
        self._replays_left = _MOST_REPLAYS
        self._judged_at = -1

    def hold(self, batch: TensorTree) -> None:
        """Keeps a batch of the data for replays."""
        self._batch = keras.utils.unpack_x_y_sample_weight(batch)

    def look(self, health: GradientHealth) -> None:
        """Tells what a measurement shows; called when the device can be read."""
        if health.step == self._judged_at:
            return
        self._judged_at = health.step
        strategy = self._recorder.optimizers[0].loss_scale
        found = self._clipped_gradients(health) or self._lost_gradients(health, strategy)
        if found is not None:
            self._recorder.tell([found])

    def _clipped_gradients(self, health: GradientHealth) -> Finding | None:
        """Bounds are written for the gradients of the loss: of scaled ones they leave nothing."""
        is_own = has_own_step(self._model) and health.loss_scale > 1
        are_scaled = not any(one.was_unscaled for one in self._recorder.optimizers)
        told = self._recorder.knows(CLIPPING)
        if told or not (is_own and are_scaled and health.clipped_at):
            return None
        return Finding(
            CLIPPING,
            "problem",
            f"{type(self._model).__name__}.train_step clips gradients to {health.clipped_at:.3g} "
            "before it divides them by the loss scale: almost nothing of them is left",
            "Call gradients = self.optimizer.unscale(gradients) before it, or give the optimizer "
            "global_clipnorm or clipvalue",
        )

    def _lost_gradients(self, health: GradientHealth, strategy: LossScale) -> Finding | None:
        """Replays a batch in float32 where the gauges are suspicious."""
        told = self._recorder.knows(UNDERFLOW, UNSCALABLE, UNSCALED_STEP)
        if told or not self._replays_left or not _is_suspicious(health):
            return None
        self._replays_left -= 1
        scale = health.loss_scale
        try:
            rows, source = lost_gradients(self._model, *self._batch, scale), "the first batch"
        except Exception:
            # A step of the user's own may have another loss, or none that can be replayed.
            source = f"step {health.step + 1}, by an estimate,"
            rows = [
                LostGradient(row.variable, row.values, row.underflow, row.largest)
                for row in health.variables
            ]
        return underflow(rows, source, scale, strategy)


def _is_suspicious(health: GradientHealth) -> bool:
    return health.underflow > _SUSPICIOUS_SHARE or any(
        row.zeros == 1.0 or row.underflow > _LOST_SHARE_OF_LAYER for row in health.variables
    )


def underflow(
    rows: Sequence[LostGradient], source: str, scale: float, strategy: LossScale
) -> Finding | None:
    """The finding about gradients that a higher scale keeps; None if few are lost.

    Args:
        rows: the gradients of the weights.
        source: where they are from, in words.
        scale: the loss scale of the training.
        strategy: the strategy that moves it.
    """
    share = sum(row.share * row.values for row in rows) / max(1, sum(row.values for row in rows))
    gone = [row.variable for row in rows if row.share >= _LOST_SHARE_OF_LAYER]
    largest = max((row.largest for row in rows), default=0.0)
    if not largest or (share < _LOST_SHARE and not gone):
        return None
    # The largest power of two that leaves room above the largest gradient.
    better = 2.0 ** math.floor(math.log2(FLOAT16.max / (_MARGIN * largest / scale)))
    if better <= scale:
        return None
    where = f" (most of them in {listed(gone, 3)})" if gone else ""
    return Finding(
        UNDERFLOW,
        "problem" if gone else "warning",
        f"At loss scale {scale:g}, {share:.0%} of the gradient values of {source} are 0 in FP16 "
        f"but not in float32{where}",
        f"Raise the scale to 2^{math.log2(better):.0f}: {_argument(better, strategy)}",
    )


def _argument(scale: float, strategy: LossScale) -> str:
    power = f"2.0**{math.log2(scale):.0f}"
    if not isinstance(strategy, DynamicLossScale):
        return f"loss_scale={power}"
    # Room to grow: gradients shrink with the loss.
    top = max(scale * 2.0**8, strategy.max_scale)
    return f"loss_scale=tfmp.DynamicLossScale(initial={power}, max_scale=2.0**{math.log2(top):.0f})"
