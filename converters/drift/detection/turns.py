"""Answers that differ as numbers and say the same: angles a turn apart, rotations of either sign.

Whether an output holds such answers, nobody but its user knows. So samples that differ in this way
are summed by themselves, and everything else is judged without them.
"""

import math

import numpy as np

from tfmp.converters.drift import Histogram

# Ranges after which values begin anew, the smallest first: hues and phases, axes of no direction,
# angles, days of a week, hours or months, hours of a day, minutes of an hour, degrees, days of the
# longest year, gon, minutes of a day, seconds of an hour or of a day.
LENGTHS = {
    "1": 1.0,
    "pi": math.pi,
    "2 pi": 2 * math.pi,
    "7": 7.0,
    "12": 12.0,
    "24": 24.0,
    "60": 60.0,
    "180": 180.0,
    "360": 360.0,
    "366": 366.0,
    "400": 400.0,
    "1440": 1440.0,
    "3600": 3600.0,
    "86400": 86400.0,
}

# Outputs of so many columns, and of so many values a sample, are looked at.
_MOST_COLUMNS, _MOST_VALUES = 64, 4096

# An angle at one end of its range is at the other end if it is this share of the length from both.
_END = 0.1

# Values beyond the ends of a range, and lengths of quaternions besides 1: FP16 rounds them.
ROUNDED = 0.002

# Numbers of a quaternion, and how far the other one may be from its negative.
QUATERNION, _NEAR = 4, 0.2

# Numbers of a rotation vector: its axis times the angle, of which none is larger than pi.
ROTATION = 3

# A quaternion of the other sign has a number that is off by 1 at least, and other ends by more.
_LEAST = (1 - 2 * _END) * min(LENGTHS.values())


def range_begins(low: np.ndarray, length: np.ndarray | float) -> np.ndarray:
    """Where a range of this length begins whose values start at `low`: 0, or minus half of it."""
    return np.where(low >= -ROUNDED * length, 0.0, -length / 2)


def turned(
    reference: np.ndarray, candidate: np.ndarray, largest: float, close: float
) -> tuple[np.ndarray, Histogram]:
    """The samples that would be right if angles or rotations were read as such.

    Args:
        reference: floating values, batch first, columns last.
        candidate: values of the same shape.
        largest: their largest difference.
        close: the L2 error of a sample that is right, relative to its L2 norm.

    Returns:
        A flag for each sample, and how many values of each column were turned by each of `LENGTHS`;
        at last, how many quaternions and rotation vectors begin in each. () if there are none.
    """
    samples = len(reference)
    columns = reference.shape[-1] if reference.ndim > 1 else 1
    none = np.zeros(samples, bool), ()
    fits = columns <= _MOST_COLUMNS and 0 < reference.size <= samples * _MOST_VALUES
    if not fits or not _LEAST <= largest < math.inf:
        return none
    one, other = (
        values.reshape(samples, -1, columns).astype(np.float64) for values in (reference, candidate)
    )
    counts = np.zeros((len(LENGTHS) + 2, samples, columns), np.int64)
    for first in range(columns - QUATERNION + 1):
        part = np.s_[..., first : first + QUATERNION]
        flipped = np.abs(np.square(one[part]).sum(axis=-1) - 1) <= 2 * ROUNDED
        flipped &= np.square(one[part] + other[part]).sum(axis=-1) <= _NEAR**2
        other[part] *= np.where(flipped, -1.0, 1.0)[..., None]
        counts[-2, :, first] = np.count_nonzero(flipped, axis=1)
    for first in range(columns - ROTATION + 1 if largest > math.pi else 0):
        part = np.s_[..., first : first + ROTATION]
        flipped, same = _other_way(one[part], other[part])
        other[part] = np.where(flipped[..., None], same, other[part])
        counts[-1, :, first] = np.count_nonzero(flipped, axis=1)
    error = other - one
    # By sample: another split of the data into batches must not count other values.
    lower, lengths = np.minimum(one, other), np.array([*LENGTHS.values()])
    low, high = lower.min(axis=1), np.maximum(one, other).max(axis=1)
    whole = lengths[:, None, None]
    begins = range_begins(low, whole)
    holds = low >= begins - ROUNDED * whole
    holds &= high <= begins + (1 + ROUNDED) * whole
    far = np.nonzero((np.abs(error) >= _LEAST) & holds.any(axis=0)[:, None])
    kind = holds.argmax(axis=0)[far[0], far[2]]
    length = lengths[kind]
    at_end = lower[far] - begins[kind, far[0], far[2]] <= _END * length
    at_end &= np.abs(error[far]) >= (1 - 2 * _END) * length
    far, kind, length = tuple(axis[at_end] for axis in far), kind[at_end], length[at_end]
    other[far] -= np.sign(error[far]) * length
    np.add.at(counts, (kind, far[0], far[2]), 1)
    left, size = (np.square(values).sum(axis=(1, 2)) for values in (other - one, one))
    # A typical angle, and a quaternion's length; that of a rotation vector is no small one.
    scales = np.append(lengths, [4.0, 0.0]) / 4
    size += scales**2 @ counts.sum(axis=2)
    found = counts.any(axis=(0, 2)) & (left <= close**2 * size)
    if not found.any():
        return none
    return found, tuple(counts[:, found].sum(axis=1).ravel().tolist())


def _other_way(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rotation vectors near half a turn go round the other way, and the same ones this way.

    An axis with one number alone is an angle like others.
    """
    whole = 2 * math.pi
    size, length = (np.linalg.norm(values, axis=-1) for values in (one, other))
    most = (0.5 + ROUNDED) * whole
    flipped = (np.maximum(size, length) <= most) & (size + length >= (1 - _END) * whole)
    flipped &= size - np.abs(one).max(axis=-1) > ROUNDED
    turn = whole / np.where(flipped, length, 1.0)
    same = other * (1 - turn)[..., None]
    flipped &= np.square(same - one).sum(axis=-1) <= _NEAR**2
    return flipped, same
