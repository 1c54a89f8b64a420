"""A few lines through each sample: how values differ along each of its axes.

Of cursors by time and point, each point has a place of its own, and hardly moves beside the
distances between them. Of bands beside the axes of a picture, each is nearly the picture. What
differs within a sample is then nearly all between the lines along an axis, and not along them.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from tfmp.converters.drift.columns.grid import even

# Points of a line, and lines along each axis: few, as hidden features have lines, too. Shorter axes
# give points more than once.
POINTS, _LINES = 8, 8

# Of samples of one axis of such a size, neighbours may be the points of a line. Longer ones are
# features as often, which are measured in little time.
_SEVERAL = range(32, 513)

# A place between two corners, from which the others follow.
_START = 0.5


@dataclass(frozen=True)
class LineGroup:
    """Lines along one axis of a sample, which are judged together.

    Attributes:
        axis: that axis; the first one after the samples' is 0. None if it is unknown, as in series
            one after the other: points are neighbours there.
        channel: the place of all of them on the last axis; None if they are anywhere.
        lines: their number.
    """

    axis: int | None
    channel: int | None
    lines: int


@dataclass(frozen=True)
class Lines:
    """The lines that are followed.

    Attributes:
        groups: lines that are judged together, in order.
        index: place in a sample of each point of all lines, of shape (POINTS, lines).
    """

    groups: tuple[LineGroup, ...]
    index: np.ndarray


@cache
def lines_of(sizes: tuple[int, ...]) -> Lines | None:
    """The lines through samples of a shape; None if all of their values lie on one."""
    if sum(size > 1 for size in sizes) < 2:
        size = math.prod(sizes)
        if size not in _SEVERAL:
            return None
        first = even((size - POINTS + 1,), _LINES, _START)
        return Lines((LineGroup(None, None, len(first)),), first + np.arange(POINTS)[:, None])
    groups, found = [], []
    own = 1 < sizes[-1] <= _LINES  # channels may be of different sizes
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        points = np.resize(even((size,), POINTS, _START), POINTS)
        by_channel = own and axis < len(sizes) - 1
        channels = range(sizes[-1]) if by_channel else (None,)
        for channel in channels:
            others = [other for at, other in enumerate(sizes) if at != axis]
            if channel is not None:
                others.pop()
            where = even(tuple(others), _LINES // len(channels), _START)
            at = list(np.unravel_index(where, others)) if others else [np.zeros(1, np.intp)]
            at = at[: len(others)]
            if channel is not None:
                at.append(np.full(len(where), channel))
            at.insert(axis, points[:, None])
            found.append(np.ravel_multi_index(tuple(np.broadcast_arrays(*at)), sizes))
            groups.append(LineGroup(axis, channel, found[-1].shape[1]))
    return Lines(tuple(groups), np.concatenate(found, axis=1))


def beside_means(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """What points differ from the mean of their line, and then the means; nothing without lines.

    Args:
        reference: floating values, batch first.
        candidate: values of the same shape.

    Returns:
        Slices of each sample of both, (2, samples, slices), float64. A line with a value that is
        not finite has none that is.
    """
    lines, samples = lines_of(reference.shape[1:]), len(reference)
    if lines is None:
        return np.empty((2, samples, 0))
    points, count = lines.index.shape
    found = np.empty((2 * samples, points + 1, count))
    chosen, means = found[:, :points], found[:, points]
    for side, values in zip(found.reshape(2, samples, -1), (reference, candidate), strict=True):
        flat = values.reshape(samples, -1)
        side[:, : points * count] = flat.take(lines.index.ravel(), axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        # Halves rather than a sum, of which NumPy chooses the order.
        half = chosen[:, :4] + chosen[:, 4:]
        half = half[:, :2] + half[:, 2:]
        np.add(half[:, 0], half[:, 1], out=means)
        means /= points
        chosen -= means[:, None]
    return found.reshape(2, samples, -1)
