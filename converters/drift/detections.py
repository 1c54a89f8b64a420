"""Detections as sets: each of the reference with its counterpart in the candidate, or without one.

A list of boxes has no order that means anything, and a box that no threshold lets through is none.
"""

import numpy as np

from tfmp.converters.drift.classes import ClassTable
from tfmp.converters.drift.decisions import Counted, Decisions

# Two boxes are the same object as far as their overlap says (intersection over union).
SAME_BOX = 0.75

# A score moves no threshold by less.
SAME_SCORE = 0.1

# Detections with smaller scores are shown to nobody.
SHOWN = 0.05

# Sets of more rows are paired by their order: assignment takes cubic time.
_MOST_PAIRS = 500


def by_boxes(reference: np.ndarray, candidate: np.ndarray, columns: tuple[int, ...]) -> Counted:
    """Detections as decisions: changed ones have no counterpart on the other side.

    Args:
        reference: rows of detections, of shape (samples, ..., columns).
        candidate: likewise; the numbers of rows may differ.
        columns: places of the four corners of a box; () for the first four. The others are scores
            and classes.
    """
    changed, shown = [], []
    for one, other in zip(reference, candidate, strict=True):
        lost, count = _unmatched(
            one.reshape(-1, one.shape[-1]).astype(np.float64),
            other.reshape(-1, other.shape[-1]).astype(np.float64),
            columns or tuple(range(min(4, one.shape[-1]))),
        )
        changed.append(lost)
        shown.append(count)
    return _counted(np.array(changed, np.int64), np.array(shown, np.int64))


def by_rows(reference: np.ndarray, candidate: np.ndarray) -> Decisions:
    """Rows of one sample as decisions: changed ones exist on one side only."""
    most = max(len(reference), len(candidate))
    fewer = abs(len(reference) - len(candidate))
    return _counted(np.array([fewer], np.int64), np.array([most], np.int64))[0]


def pair_rows(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two lists that are nearest to one another, in the order of the shorter list.

    Args:
        reference: of shape (rows, ...).
        candidate: of shape (other rows, ...).
    """
    fewest = min(len(reference), len(candidate))
    if fewest == 0 or max(len(reference), len(candidate)) > _MOST_PAIRS:
        return reference[:fewest], candidate[:fewest]
    from scipy.optimize import linear_sum_assignment

    one, other = (
        np.nan_to_num(values.reshape(len(values), -1).astype(np.float64))
        for values in (reference, candidate)
    )
    scale = np.abs(one).max(axis=0) + np.finfo(np.float64).tiny
    cost = np.abs((one[:, None] - other[None]) / scale).mean(axis=2)
    rows, columns = linear_sum_assignment(cost)
    return reference[rows], candidate[columns]


def _unmatched(one: np.ndarray, other: np.ndarray, columns: tuple[int, ...]) -> tuple[int, int]:
    """Detections without a counterpart, and detections in all."""
    rest = [column for column in range(one.shape[1]) if column not in columns]
    one, other = (rows[_is_shown(rows, rest)] for rows in (one, other))
    most = max(len(one), len(other))
    if not len(one) or not len(other) or most > _MOST_PAIRS * 10:
        return (most, most) if len(one) != len(other) else (0, most)
    boxes = [_corners(rows[:, list(columns)]) for rows in (one, other)]
    free_one, free_other = np.arange(len(one)), np.arange(len(other))
    if len(one) == len(other):  # nearly always each is where it was
        same = _agree(boxes[0], boxes[1], one[:, rest], other[:, rest])
        free_one = free_other = np.flatnonzero(~same)
    matched = most - len(free_one) if len(one) == len(other) else 0
    if len(free_one) and len(free_other) and max(len(free_one), len(free_other)) <= _MOST_PAIRS:
        from scipy.optimize import linear_sum_assignment

        left, right = np.meshgrid(free_one, free_other, indexing="ij")
        same = _agree(
            boxes[0][left], boxes[1][right], one[left][..., rest], other[right][..., rest]
        )
        rows, places = linear_sum_assignment(same, maximize=True)
        matched += int(np.count_nonzero(same[rows, places]))
    return most - matched, most


def _is_shown(rows: np.ndarray, rest: list[int]) -> np.ndarray:
    if not rest:
        return np.ones(len(rows), bool)
    return np.nan_to_num(rows[:, rest], nan=np.inf).max(axis=1) >= SHOWN


def _corners(boxes: np.ndarray) -> np.ndarray:
    """Boxes as low and high corners; centres and sizes become that, too."""
    low, high = boxes[:, :2], boxes[:, 2:4]
    if not len(boxes) or (high >= low).all():
        return np.concatenate([low, high], axis=1)
    return np.concatenate([low - np.abs(high) / 2, low + np.abs(high) / 2], axis=1)


def _agree(
    one: np.ndarray, other: np.ndarray, scores: np.ndarray, received: np.ndarray
) -> np.ndarray:
    """Whether detections are the same: box, scores and class."""
    low = np.maximum(one[..., :2], other[..., :2])
    high = np.minimum(one[..., 2:], other[..., 2:])
    common = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(axis=-1) for boxes in (one, other)]
    union = areas[0] + areas[1] - common
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = np.where(union > 0, common / union, (one == other).all(axis=-1))
    near = (np.abs(scores - received) <= SAME_SCORE).all(axis=-1)
    return (overlap >= SAME_BOX) & near


def _counted(changed: np.ndarray, shown: np.ndarray) -> Counted:
    decisions = Decisions(
        samples=int(np.count_nonzero(shown)),
        decisions=int(shown.sum()),
        changed=int(changed.sum()),
        changed_samples=int(np.count_nonzero(changed)),
        changed_sq=int((changed * changed).sum()),
        changed_decisions=int((changed * shown).sum()),
        decisions_sq=int((shown * shown).sum()),
        firm=int(changed.sum()),
        firm_sq=int((changed * changed).sum()),
        firm_decisions=int((changed * shown).sum()),
        classes=ClassTable(),
    )
    return decisions, changed / np.maximum(shown, 1)
