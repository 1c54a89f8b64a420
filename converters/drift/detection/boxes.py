"""Detections as sets: each of the reference with its counterpart in the candidate, or without one.

A list of boxes has no order that means anything, and a box that no threshold lets through is none.
"""

import numpy as np

from tfmp.converters.drift import TIE, Decisions, count_decisions

# Two boxes are the same object as far as their overlap says (intersection over union).
SAME_BOX = 0.75

# A score of a single detection may differ by less.
SAME_SCORE = 0.1

# Detections with smaller scores are shown to nobody.
SHOWN = 0.05

# Sets of more rows are compared in their order: assignment takes cubic time.
MOST_PAIRS = 500

# Columns of rows as detectors give them that end with their own suppression.
SCORE, CLASS = 4, 5


def by_boxes(reference: np.ndarray, candidate: np.ndarray, columns: tuple[int, ...]) -> Decisions:
    """Detections as decisions: changed ones have no counterpart on the other side.

    Args:
        reference: rows of detections, of shape (samples, ..., columns).
        candidate: likewise; the numbers of rows may differ.
        columns: places of the four corners of a box; () for the first four. The others are scores
            (within [0, 1]), classes (whole numbers) and anything else, such as landmarks.
    """
    found = []
    for sides in zip(reference, candidate, strict=True):
        one, other = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in sides)
        box = list(columns or range(min(4, one.shape[1])))
        scores = _scores(one if one.any() else other, box)  # rows of zeros are padding
        one, other = (rows[_is_shown(rows, scores)] for rows in (one, other))
        most = max(len(one), len(other))
        same = np.count_nonzero(counterparts(one, other, box) >= 0) if most else 0
        found.append((most - same, most) if most else (0, 1))
    return count_decisions(*np.array(found, np.int64).reshape(-1, 2).T)


def are_boxes(values: np.ndarray) -> bool:
    """Whether rows are what detectors write that suppress by themselves.

    Such rows hold two corners, a score and a class. Without rows nothing speaks against it.

    Args:
        values: an output, batch first.
    """
    if values.ndim != 3 or values.shape[2] <= CLASS:
        return False
    low, high, score, named = (
        values[..., part] for part in (slice(0, 2), slice(2, 4), SCORE, CLASS)
    )
    return bool(
        (score >= 0).all()
        and (score <= 1).all()
        and (named == np.rint(named)).all()
        and (high >= low).all()
    )


def counterparts(one: np.ndarray, other: np.ndarray, columns: list[int]) -> np.ndarray:
    """For each item the place of the same one on the other side, its own place first; -1 for none.

    Args:
        one: rows of items.
        other: likewise; the number of rows may differ.
        columns: places of the four corners of a box, or of its centre and size; [] without boxes.
    """
    telling = one if len(one) else other
    centred = not (telling[:, columns[2:4]] >= telling[:, columns[:2]]).all(axis=1).mean() >= 0.5
    box, other_box = (corners(rows[:, columns], centred) for rows in (one, other))
    rest = [column for column in range(one.shape[1]) if column not in columns]
    facts = rest, _scores(telling, columns), np.std(telling, axis=0)
    free_one, free_other, found = np.arange(len(one)), np.arange(len(other)), np.full(len(one), -1)
    if len(one) == len(other):  # nearly always each is where it was
        same = _agree(one, other, box, other_box, *facts)
        found[same] = free_one[same]
        free_one = free_other = np.flatnonzero(~same)
    if len(free_one) and len(free_other) and max(len(free_one), len(free_other)) <= MOST_PAIRS:
        from scipy.optimize import linear_sum_assignment

        left, right = np.meshgrid(free_one, free_other, indexing="ij")
        same = _agree(one[left], other[right], box[left], other_box[right], *facts)
        rows, places = linear_sum_assignment(same, maximize=True)
        fits = same[rows, places]
        found[free_one[rows[fits]]] = free_other[places[fits]]
    return found


def _scores(rows: np.ndarray, columns: list[int]) -> list[int]:
    """The columns that hold scores: within [0, 1] and not whole numbers throughout."""
    inside = ((rows >= 0) & (rows <= 1)).all(axis=0) & (rows != np.rint(rows)).any(axis=0)
    return [column for column in np.flatnonzero(inside).tolist() if column not in columns]


def _is_shown(rows: np.ndarray, scores: list[int]) -> np.ndarray:
    if not scores:
        return np.asarray(rows.any(axis=1))
    return np.nan_to_num(rows[:, scores], nan=np.inf).max(axis=1) >= SHOWN


def corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """Boxes as low and high corners; centres and sizes become that, too."""
    low, high = boxes[..., :2], boxes[..., 2:4]
    if centred:
        low, high = low - np.abs(high) / 2, low + np.abs(high) / 2
    return np.concatenate([np.minimum(low, high), np.maximum(low, high)], axis=-1)


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union; boxes without a size overlap if they are in the same place."""
    low = np.maximum(one[..., :2], other[..., :2])
    high = np.minimum(one[..., 2:], other[..., 2:])
    common = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(axis=-1) for boxes in (one, other)]
    union = areas[0] + areas[1] - common
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(union > 0, common / union, (one == other).all(axis=-1))


def _agree(
    one: np.ndarray,
    other: np.ndarray,
    box: np.ndarray,
    other_box: np.ndarray,
    rest: list[int],
    scores: list[int],
    spread: np.ndarray,
) -> np.ndarray:
    """Whether detections are the same: box, scores, class and anything else.

    What is neither a score nor a class, such as landmarks and angles, may differ by a share of its
    standard deviation between detections.
    """
    same = np.ones(one.shape[:-1], bool)
    if box.shape[-1]:
        same &= overlap(box, other_box) >= SAME_BOX
    for column in rest:
        expected, received = one[..., column], other[..., column]
        whole = column in scores or (expected == np.rint(expected)).all()
        same &= np.abs(expected - received) <= SAME_SCORE * (1.0 if whole else spread[column])
    if len(scores) > 1:
        expected, received = one[..., scores], other[..., scores]
        best, chosen = expected.argmax(axis=-1), received.argmax(axis=-1)
        there = np.take_along_axis(expected, chosen[..., None], axis=-1)[..., 0]
        same &= (best == chosen) | (expected.max(axis=-1) - there <= TIE)
    return same


def in_pairs(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two lists of different lengths that have a counterpart in their place."""
    fewest = min(len(reference), len(candidate))
    return reference[:fewest], candidate[:fewest]
