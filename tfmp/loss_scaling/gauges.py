"""Gauges of the gradients: sizes, and values lost below FP16's range.

They are measured on the device, on a few steps only, and lie in one vector beside the counters. The
host reads both together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from keras import ops

from tfmp.loss_scaling.rare_sums import is_small, rarely_summed
from tfmp.shared.backend import Tensor, current_backend
from tfmp.shared.numerics import FLOAT16

# Applied steps from one measurement to the next. A measured step of a tiny model takes twice the
# time of another; measured twice in 512 steps, it stays well below 1 %.
EVERY = 512
_LEAST_EVERY = 32
_FEWEST_MEASUREMENTS = 16

# Norms of this many measured steps are kept: clipped gradients have one norm in all of them.
RING = 32

# The largest magnitudes that are zero, in the lowest two binades of FP16, and in the next two.
_BOUNDS = np.nextafter(
    np.array([0, 4, 16], "float32") * FLOAT16.smallest_subnormal, 0, dtype="float32"
)


class Gauges(NamedTuple):
    """The latest measurement, as float32 tensors or arrays; gradients are those of the scaled loss.

    Attributes:
        measured_at: the inner optimizer's iterations before the measured step; -1 before the first.
        scale: the loss scale of that step.
        count: number of measurements.
        ring: norms of the unscaled gradients in the last measured steps; the next one goes to
            place `count % RING`.
        values: per trainable variable, the number of values in its gradient; 0 without a gradient.
        nonzero: how many of them are not zero.
        lowest: how many are not zero and below 2**-22, in FP16's lowest two binades.
        next: how many lie in the two binades above.
        largest: the largest magnitude.
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


def measure(
    vector: Tensor,
    scale: Tensor,
    iterations: Tensor,
    grads: Sequence[Tensor | None],
) -> Tensor:
    """The packed gauges after a step that was applied.

    Args:
        vector: the packed gauges before.
        scale: the loss scale.
        iterations: the inner optimizer's iterations before the step.
        grads: the scaled gradients, one for each variable; of sparse ones only their rows count.
    """
    before = unpack(vector)
    values, nonzero, lowest, following, largest, norms = _of_gradients(grads)
    now = ops.cast(iterations, "float32")
    place = ops.arange(RING, dtype="float32") == ops.mod(before.count, float(RING))
    parts = [
        ops.stack([now, ops.cast(scale, "float32"), before.count + 1.0]),
        ops.where(place, _norm(norms) / scale, before.ring),
        values,
        nonzero,
        lowest,
        following,
        largest,
    ]
    return ops.concatenate([ops.cast(part, "float32") for part in parts])


def _of_gradients(grads: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """Values, nonzero, lowest, next and largest as in `Gauges`, and the norm of each."""
    groups = _alike(grads)
    absent = sorted(set(range(len(grads))) - set(chain.from_iterable(groups)))
    parts = [ops.zeros((6, len(absent)), "float32")]
    for places in groups:
        values = _stacked([ops.cast(_dense(grads[place]), "float32") for place in places])
        largest = ops.maximum(ops.max(ops.abs(values), tuple(range(1, len(values.shape)))), 0.0)
        nonzero, above_lowest, above_next, square = ops.unstack(_sums(values, largest), 4)
        totals = [ops.cast(ops.size(_dense(grads[place])), "float32") for place in places]
        counts = [ops.stack(totals), nonzero, nonzero - above_lowest, above_lowest - above_next]
        parts.append(ops.stack([*counts, largest, largest * ops.sqrt(square)]))
    order = np.argsort([*absent, *chain.from_iterable(groups)])
    return tuple(ops.unstack(ops.take(ops.concatenate(parts, axis=1), order, axis=1), 6))


def _sums(values: Tensor, largest: Tensor) -> Tensor:
    """For each gradient, how many magnitudes lie past each bound, and the sum of squares.

    Args:
        values: gradients, the first axis over them.
        largest: the largest magnitude of each. Squares are those of shares of it, which do not
            leave float32's range.

    Returns:
        Sums of shape (4, gradients).
    """
    inner = [1] * (len(values.shape) - 1)
    size = ops.abs(values)
    safe = ops.reshape(ops.where(largest > 0, largest, 1.0), (-1, *inner))
    bounds = np.append(_BOUNDS, np.float32(0)).reshape(-1, 1, *inner)
    above = ops.cast(ops.greater(size, bounds), "float32")
    is_square = np.arange(4).reshape(-1, 1, *inner) == len(_BOUNDS)
    terms = ops.where(is_square, ops.square(size / safe), above)
    return rarely_summed(terms, len(inner))


def _alike(grads: Sequence[Tensor | None]) -> list[list[int]]:
    """The places of gradients that have values: small ones of one rank, with little padding."""
    groups: list[_Group] = []
    for place, grad in enumerate(grads):
        shape = (0,) if grad is None else tuple(_dense(grad).shape)
        if 0 in shape:
            continue
        if not any(is_small(shape) and group.takes(place, shape) for group in groups):
            groups.append(_Group([place], shape, math.prod(shape) if is_small(shape) else None))
    return [group.places for group in groups]


@dataclass
class _Group:
    """Gradients in one stack: their places, the longest of each axis, and their values in all.

    A gradient that is not small, whose size may be unknown, has no `size` and stays by itself.
    """

    places: list[int]
    longest: tuple[int, ...]
    size: int | None

    def takes(self, place: int, shape: tuple[int, ...]) -> bool:
        """Takes a small gradient of the same rank, if little padding comes with it."""
        if self.size is None or len(shape) != len(self.longest):
            return False
        longest = tuple(map(max, self.longest, shape))
        size = self.size + math.prod(shape)
        if not is_small((math.prod(longest) * (len(self.places) + 1) - size,)):
            return False
        self.places.append(place)
        self.longest, self.size = longest, size
        return True


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """Arrays of one rank in one, with zeros where some are shorter.

    They keep their rank: XLA would transpose gradients on every step for a branch that flattens
    them.
    """
    longest = [max(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
    return ops.stack([_padded(value, longest) for value in values])


def _padded(value: Tensor, shape: Sequence[int]) -> Tensor:
    """The array with zeros at the ends of its axes."""
    if tuple(value.shape) == tuple(shape):  # the sizes of a sparse gradient may be unknown
        return value
    return ops.pad(
        value, [(0, long - short) for short, long in zip(value.shape, shape, strict=True)]
    )


def _dense(grad: Tensor) -> Tensor:
    """The gradient; of a sparse one, its rows."""
    return current_backend().rows(grad)


def _norm(values: Tensor) -> Tensor:
    """The norm without squares that leave float32's range."""
    largest = ops.max(ops.abs(values))
    safe = ops.where(largest > 0, largest, 1.0)
    return largest * ops.sqrt(rarely_summed(ops.square(values / safe), 1))
