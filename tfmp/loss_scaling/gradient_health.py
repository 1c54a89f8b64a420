"""GradientHealth: the gauges of the gradients as numbers that people read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfmp.loss_scaling.gauges import Gauges
from tfmp.shared.numerics import FLOAT16

# Sums of one size differ by their rounding; norms of the gradients of two batches differ by more.
_SAME_SIZE = 1e-5


@dataclass(frozen=True)
class VariableHealth:
    """The gradient of one trainable variable in the latest measured step.

    Attributes:
        variable: its path in the model, such as "sequential/dense/kernel".
        values: number of values in the gradient.
        zeros: share of them that is zero.
        underflow: estimated share that is zero in FP16 though it is not in float32.
        largest: the largest magnitude, multiplied by the loss scale.
    """

    variable: str
    values: int
    zeros: float
    underflow: float
    largest: float


@dataclass(frozen=True)
class GradientHealth:
    """The gradients in the latest measured step.

    Attributes:
        step: the inner optimizer's iterations before that step.
        loss_scale: the scale of that step.
        norm: norm of all unscaled gradients together.
        underflow: estimated share of all values that is zero in FP16 though it is not in float32.
        headroom_bits: powers of two between the largest scaled gradient and 65504; infinite if all
            are 0, and in training without FP16 layers.
        variables: one row for each trainable variable that has a gradient.
        clipped_at: the size that scaled gradients have again and again, as clipping leaves them:
            the largest magnitude of every variable, or the norm in every measured step.
    """

    step: int
    loss_scale: float
    norm: float
    underflow: float
    headroom_bits: float
    variables: tuple[VariableHealth, ...]
    clipped_at: float | None = None

    @property
    def largest(self) -> float:
        """The largest magnitude of all, multiplied by the loss scale."""
        return max((row.largest for row in self.variables), default=0.0)

    @property
    def in_range(self) -> "GradientHealth":
        """The same with nothing lost: bfloat16 has the range of float32."""
        kept = tuple(replace(row, underflow=0.0) for row in self.variables)
        return replace(self, underflow=0.0, headroom_bits=math.inf, variables=kept)

    def scalars(self) -> dict[str, float]:
        """The numbers that are worth a curve over time, by name."""
        numbers = {"gradient_norm": self.norm, "underflow": self.underflow}
        headroom = {"headroom_bits": self.headroom_bits}
        return {**numbers, **(headroom if math.isfinite(self.headroom_bits) else {})}


def health_of(gauges: Gauges, paths: Sequence[str]) -> GradientHealth | None:
    """The gauges as NumPy arrays, made readable; None before the first measurement.

    Args:
        gauges: read from the device.
        paths: the paths of the trainable variables.
    """
    if gauges.count == 0:
        return None
    lost = _lost_values(gauges)
    rows = tuple(
        VariableHealth(
            variable=path,
            values=int(values),
            zeros=float(1 - gauges.nonzero[place] / values),
            underflow=float(lost[place] / values),
            largest=float(gauges.largest[place]),
        )
        for place, (path, values) in enumerate(zip(paths, gauges.values, strict=True))
        if values
    )
    largest = max((row.largest for row in rows), default=0.0)
    norms = gauges.ring[: int(min(gauges.count, len(gauges.ring)))]
    return GradientHealth(
        step=int(gauges.measured_at),
        loss_scale=float(gauges.scale),
        norm=float(gauges.ring[0]),
        underflow=float(lost.sum() / max(1.0, gauges.values.sum())),
        headroom_bits=math.log2(FLOAT16.max / largest) if largest else math.inf,
        variables=rows,
        clipped_at=_one_of([row.largest for row in rows if row.largest])
        or _one_of([float(norm) for norm in norms * gauges.scale]),
    )


def _one_of(sizes: list[float]) -> float | None:
    """The size that all of several have; None if they differ."""
    is_one = len(sizes) > 1 and max(sizes) - min(sizes) <= _SAME_SIZE * max(sizes)
    return sizes[-1] if is_one else None


def _lost_values(gauges: Gauges) -> np.ndarray:
    """An estimate, per variable, of the values that FP16 rounded to zero.

    The number of values falls by a constant factor from each pair of binades to the pair below, as
    it does where a density is smooth: by 4 if it is flat around 0. The geometric series goes on
    below FP16's smallest number, and zeros bound it. A gradient without any other value is lost if
    the next one towards the loss lies below FP16's normal numbers itself. Where all are 0, as with
    sample weights of 0, nothing tells of a loss: layers next to it are float32.
    """
    zeros = gauges.values - gauges.nonzero
    lost = np.zeros(len(zeros))
    after_it_is_tiny = bool(0 < np.max(gauges.largest, initial=0.0) < FLOAT16.smallest_normal)
    for place in reversed(range(len(zeros))):
        if not gauges.values[place]:
            continue
        if not gauges.nonzero[place]:
            lost[place] = zeros[place] if after_it_is_tiny else 0
            continue
        after_it_is_tiny = bool(gauges.largest[place] < FLOAT16.smallest_normal)
        low, high = gauges.lowest[place], gauges.next[place]
        ratio = low / high if high else math.inf
        if low:
            series = low * ratio / (1 - ratio) if ratio < 1 else math.inf
            lost[place] = min(zeros[place], series)
    return lost
