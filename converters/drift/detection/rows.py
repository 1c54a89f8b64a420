"""Lists of rows whose number depends on the data: which rows of two lists are the same."""

import numpy as np

from tfmp.converters.drift import Decisions, count_decisions
from tfmp.converters.drift.detection.boxes import MOST_PAIRS

# Rows are the same if no value differs by more, in terms of its column's largest.
_SAME_ROW = 0.1


def by_rows(reference: np.ndarray, candidate: np.ndarray, paired: int) -> Decisions:
    """Rows of one sample as decisions: changed ones exist on one side only.

    Args:
        reference: rows of one side.
        candidate: rows of the other.
        paired: number of rows that have a counterpart, see `pair_rows`.
    """
    most = max(len(reference), len(candidate))
    return count_decisions(np.array([most - paired]), np.array([most]))


def pair_rows(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two lists that are the same, in their order.

    They are the longest common subsequence: a word that is missing shifts those behind it, and
    words that change places are others.

    Args:
        reference: of shape (rows, ...).
        candidate: of shape (other rows, ...).
    """
    fewest = min(len(reference), len(candidate))
    if fewest == 0 or max(len(reference), len(candidate)) > MOST_PAIRS:
        return reference[:fewest], candidate[:fewest]
    one, other = (values.reshape(len(values), -1) for values in (reference, candidate))
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        one, other = (np.nan_to_num(values.astype(np.float64)) for values in (one, other))
        scale = np.abs(one).max(axis=0) + np.finfo(np.float64).tiny
        same = (np.abs(one[:, None] - other[None]) <= _SAME_ROW * scale).all(axis=2)
    else:
        same = np.asarray(one[:, None] == other[None], bool).all(axis=2)
    rows, places = _common(same)
    return reference[rows], candidate[places]


def _common(same: np.ndarray) -> tuple[list[int], list[int]]:
    """Places of the longest common subsequence, by what is the same as what."""
    count, width = same.shape
    longest = np.zeros((count + 1, width + 1), np.int64)
    for i in range(count - 1, -1, -1):
        diagonal = np.where(same[i], longest[i + 1, 1:] + 1, longest[i + 1, :-1])
        # From right to left, a place is at least as good as the one behind it.
        longest[i, :-1] = np.maximum.accumulate(diagonal[::-1])[::-1]
    rows, places, i, j = [], [], 0, 0
    while i < count and j < width:
        if same[i, j] and longest[i, j] == longest[i + 1, j + 1] + 1:
            rows.append(i)
            places.append(j)
            i, j = i + 1, j + 1
        elif longest[i + 1, j] >= longest[i, j + 1]:
            i += 1
        else:
            j += 1
    return rows, places
