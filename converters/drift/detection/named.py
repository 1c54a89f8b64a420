"""Classes of detections: how many of each are lost, or are given to others."""

from collections.abc import Sequence

import numpy as np

from tfmp.converters.drift import ClassTable

# Numbers of classes are smaller.
_MOST = 2**31


def class_column(rows: np.ndarray, columns: Sequence[int]) -> int | None:
    """The only one of some columns that holds whole numbers; two of them might be anything."""
    whole = [
        column
        for column in columns
        if np.isfinite(rows[:, column]).all()
        and (rows[:, column] == np.rint(rows[:, column])).all()
    ]
    return whole[0] if len(whole) == 1 else None


def classes_of(
    numbers: Sequence[np.ndarray],
    pairs: np.ndarray,
    free: Sequence[np.ndarray],
    sure: Sequence[np.ndarray],
    same_box: np.ndarray,
) -> np.ndarray:
    """The classes of one sample's detections, of shape (detections, 3).

    The columns are the class of the reference and that of the candidate, -1 where a detection is on
    the other side alone, and whether it was lost or appeared beyond doubt: no rounding takes it off
    a list, or the other side has another class in its place.

    Args:
        numbers: the class of each detection, by side.
        pairs: places of detections that are the same on both sides, of shape (pairs, 2).
        free: places of the others, by side.
        sure: which of these no rounding takes off a list, by side.
        same_box: whether two of these are in the same place, of shape (free, free).
    """
    one, other = map(_as_classes, numbers)
    renamed = same_box & (one[free[0], None] != other[free[1]])
    lost, new = sure[0] | renamed.any(axis=1), sure[1] | renamed.any(axis=0)
    none = [np.full(len(places), -1) for places in free]
    left = np.stack([one[free[0]], none[0], lost], axis=1)
    right = np.stack([none[1], other[free[1]], new], axis=1)
    return np.concatenate([paired_classes(numbers, pairs), left, right])


def paired_classes(numbers: Sequence[np.ndarray], pairs: np.ndarray) -> np.ndarray:
    """What `classes_of` tells of detections that are the same on both sides."""
    found = np.zeros((len(pairs), 3), np.int64)
    for side, named in enumerate(numbers):
        found[:, side] = _as_classes(named[pairs[:, side]])
    return found


def _as_classes(numbers: np.ndarray) -> np.ndarray:
    known = (numbers >= 0) & (numbers < _MOST)
    return np.where(known, np.rint(numbers), -1).astype(np.int64)


def count_named(samples: Sequence[np.ndarray]) -> ClassTable:
    """Counts what `classes_of` told of each sample."""
    table = np.full((len(samples), max(map(len, samples), default=0), 3), -1)
    for row, found in zip(table, samples, strict=True):
        row[: len(found)] = found
    return ClassTable.of_numbers(table[..., 0], table[..., 1], table[..., 2] == 1)
