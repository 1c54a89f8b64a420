"""Gauges of the gradients: sizes, and values lost below FP16's range.

They are measured on the device, on a few steps only, and lie in one vector beside the counters. The
host reads both together.
"""

from typing import NamedTuple

from keras import ops

from tfmp.loss_scaling.gradients import Sums
from tfmp.shared.backend import Tensor

# Applied steps from one measurement to the next. A measured step of a tiny model takes twice the
# time of another; measured twice in 512 steps, it stays well below 1 %.
EVERY = 512
_LEAST_EVERY = 32
_FEWEST_MEASUREMENTS = 16

# Norms of this many measured steps are kept: clipped gradients have one norm in all of them.
RING = 32


class Gauges(NamedTuple):
    """The latest measurement, as float32 tensors or arrays; gradients are those of the scaled loss.

    Attributes:
        measured_at: the inner optimizer's iterations before the measured step; -1 before the first.
        scale: the loss scale of that step.
        count: number of measurements.
        ring: norms of the unscaled gradients in the last measured steps, the latest first.
        values, nonzero, lowest, next, largest: as of `Sums`, one for each trainable variable.
    """

    measured_at: Tensor
    scale: Tensor
    count: Tensor
    ring: Tensor
    values: Tensor
    nonzero: Tensor
    lowest: Tensor
    next: Tensor
    largest: Tensor


_SCALARS = 3
_VECTORS = 5


def packed_size(variables: int) -> int:
    """Length of the vector for this many trainable variables."""
    return _SCALARS + RING + _VECTORS * variables


def unpack(vector: Tensor) -> Gauges:
    """The gauges in a packed vector: backend tensor or NumPy array, of static length."""
    first = _SCALARS + RING
    variables = (int(vector.shape[0]) - first) // _VECTORS
    parts = [vector[index] for index in range(_SCALARS)]
    parts.append(vector[_SCALARS:first])
    starts = [first + index * variables for index in range(_VECTORS)]
    return Gauges(*parts, *(vector[start : start + variables] for start in starts))


def interval_for(steps: int | None) -> int:
    """The steps between measurements in a training of so many steps; None if nobody knows."""
    if steps is None:
        return EVERY
    return min(max(steps // _FEWEST_MEASUREMENTS, _LEAST_EVERY), EVERY)


def is_due(iterations: Tensor, every: int, first: int) -> Tensor:
    """Whether the next applied step is measured: two steps in a row, whose norms are compared.

    Args:
        iterations: the inner optimizer's iterations.
        every: steps between measurements; 0 where none is traced.
        first: the iterations before the first measured step.
    """
    # Operators with Python's numbers: those of Keras would copy each to the device on every step.
    return (iterations - first) % (every or EVERY) < 2


def measure(vector: Tensor, scale: Tensor, iterations: Tensor, sums: Sums) -> Tensor:
    """The packed gauges after a step that was applied.

    Args:
        vector: the packed gauges before.
        scale: the loss scale.
        iterations: the inner optimizer's iterations before the step.
        sums: of the scaled gradients.
    """
    before = unpack(vector)
    parts = [
        ops.stack([ops.cast(iterations, "float32"), scale, before.count + 1.0, sums.norm]),
        before.ring[:-1],
        sums.values,
        ops.reshape(sums.counts, (-1,)),
        sums.largest,
    ]
    return ops.concatenate(parts)
