"""What varies within single samples, which their own offsets and the other samples hide."""

from collections.abc import Iterator, Sequence

import numpy as np

from tfmp.converters.drift import Along
from tfmp.shared.numerics import FLOAT16, ulp

# Channels of a sample that each have a level of their own; of more, a sample is looked at as one.
_FEW = 32

# So many values vary beside their mean, and so many of a channel tell what noise is. So many are
# the same by no chance, if this share of them were others each.
_FEWEST, _MANY, _TIED, _TIED_SHARE, _DISTINCT = 4, 24, 3, 0.01, 0.75

# Zeros are no loss where the reference varies by less than a few times this share of what it does
# elsewhere.
_BESIDE_ZERO = 0.02

# Of a normal distribution, the standard deviation over the width of its middle half, and over what
# a quarter of all sizes are below.
_TO_DEVIATION, _TO_NOISE = 0.7413, 3.138

# An error that is a smaller share of what varies than the first loses nothing, and a larger one
# than the second much. What varies by less than the third share of its size is one number in FP16,
# and float32 adds to it.
_LOST, _MUCH, _NOISE = 0.1, 0.3, 1e-4


def may_vary(sums: Sequence[Along | None], values: int) -> np.ndarray | bool:
    """Flags of the samples of which a large part of what varies may be lost.

    Args:
        sums: along the last axis and along axis 1, where they were measured.
        values: number of values of a sample.
    """
    found: np.ndarray | bool = False
    for along in sums:
        if along is None:
            continue
        _, samples, slices = along.sums.shape
        parts = [along.sums.sum(axis=2, keepdims=True)]
        parts += [along.sums] * (1 < slices <= _FEW)
        for error, square, total in parts:
            count = values / error.shape[1]
            with np.errstate(over="ignore", invalid="ignore"):  # squares beyond float64
                varied = square - total**2 / count
                over = (error > _LOST**2 * varied) & (varied > _NOISE**2 * square)
            found = found | (over.any(axis=1) if count >= _FEWEST else np.zeros(samples, bool))
    return found


def lost_within(reference: np.ndarray, candidate: np.ndarray, axis: int) -> tuple[float, ...]:
    """What one sample loses beside its mean, and where it has one number.

    Args:
        reference: values of one sample.
        candidate: likewise.
        axis: of channels.

    Returns:
        The error, each side without its mean, relative to what the reference varies by, and the
        error itself: its L2 norm, and its root mean square in spacings of FP16; of the channel or
        the first axis's place that is off by most, and which that is: 1 and more for a channel, -1
        and less for a place, 0 for a sample as a whole. Then `_ended`. Zeros where too few values
        vary, or some are not finite.
    """
    one, other = (np.asarray(values, np.float64) for values in (reference, candidate))
    if one.size < _FEWEST or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return (0.0,) * 5
    with np.errstate(over="ignore", invalid="ignore"):  # squares beyond float64
        found = _lost(one, other, axis)
    return found if np.isfinite(found).all() else (0.0,) * 5


def _lost(one: np.ndarray, other: np.ndarray, axis: int) -> tuple[float, ...]:
    found: list[tuple[float, ...]] = []
    for sign, rows, errors in _layouts(one, other - one, axis):
        count = rows.shape[1]
        varied, error = (
            np.sqrt(((each - each.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
            for each in (rows, errors)
        )
        size = np.sqrt((rows**2).sum(axis=1))
        varies = (varied > _NOISE * size) & (size > _NOISE**2 * size.max())
        ratio = np.divide(error, varied, out=np.zeros(len(error)), where=varies)
        spacings = error / count**0.5 / ulp(np.maximum(size / count**0.5, FLOAT16.smallest_normal))
        where = sign * np.arange(1, len(rows) + 1)
        found += map(tuple, np.stack([ratio, error, spacings, where], axis=1).tolist())
    if not found:
        return 0.0, 0.0, 0.0, 0.0, _merged(one, other, axis)
    # Of those that lose much, the one that is off by most numbers of FP16.
    worst = max(found, key=lambda each: (each[0] > _MUCH, each[2] if each[0] > _MUCH else each[0]))
    return *worst, _merged(one, other, axis)


def _merged(one: np.ndarray, other: np.ndarray, axis: int) -> float:
    """What `_ended` gives of the channel or place that lost most, whichever of both knows less."""
    sides = [each for _, *each in _layouts(one, other, axis) if each[0].shape[1] >= _MANY]
    sides = sides or [[one.reshape(1, -1), other.reshape(1, -1)]]
    return min(max(map(_ended, *both)) for both in sides)


def _layouts(
    one: np.ndarray, other: np.ndarray, axis: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Two sides as rows that each have a level: channels, places on axis 1, or all.

    The number before them is 1, -1 or 0 in turn.
    """
    signs = {0: -1, axis % one.ndim: 1}
    chosen = {at: sign for at, sign in signs.items() if one.ndim > 1 and one.shape[at] <= _FEW}
    for at, sign in chosen.items():
        if one.size >= _FEWEST * one.shape[at]:
            first, second = (np.moveaxis(each, at, 0) for each in (one, other))
            yield sign, first.reshape(len(first), -1), second.reshape(len(second), -1)
    if not chosen:
        yield 0, one.reshape(1, -1), other.reshape(1, -1)


def _ended(one: np.ndarray, other: np.ndarray) -> float:
    """How much the reference varies where the candidate has one number.

    That is the candidate's largest, its smallest or its most frequent value. What varies is told by
    the middle half, as a standard deviation, relative to the noise of other values or to FP16's
    spacing; 0 where few values are that number, or the reference has one there, too. Beside a zero,
    what all values vary by counts, too: FP16 and hardware end there for good reasons.
    """
    values, counts = np.unique(other, return_counts=True)
    enough = counts >= max(_TIED, _TIED_SHARE * one.size)
    found = 0.0
    for at in {0, len(values) - 1, int(counts.argmax())}:
        if not enough[at] or counts[at] == one.size:
            continue
        tied = other == values[at]
        if len(np.unique(one[tied])) < _DISTINCT * counts[at]:
            continue
        noise = _TO_NOISE * float(np.quantile(np.abs(other - one)[~tied], 0.25))
        low, high = np.quantile(one[tied], [0.25, 0.75])
        least = _BESIDE_ZERO * float(one.std()) if values[at] == 0 else 0.0
        floor = max(noise, float(ulp(values[at : at + 1])[0]), least)
        found = max(found, _TO_DEVIATION * float(high - low) / floor)
    return found
