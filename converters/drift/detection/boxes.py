"""Detections as sets: each of the reference with its counterpart in the candidate, or without one.

A list of boxes has no order that means anything, and a box that no threshold lets through is none.
"""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import ClassTable, Counted, Decisions
from tfmp.converters.drift.detection.named import (
    class_column,
    classes_of,
    count_named,
    paired_classes,
)
from tfmp.shared.numerics import ulp

# Two boxes are the same object as far as their overlap says (intersection over union).
SAME_BOX = 0.75

# A score of a single detection may differ by less; see `Fit` for what all may differ by.
SAME_SCORE = 0.1

# Detections with smaller scores are shown to nobody.
SHOWN = 0.05

# Two classes are a tie if their scores differ by less.
_TIE = 0.02

# Sets of more rows are compared in their order: assignment takes cubic time.
MOST_PAIRS = 500

# Columns of rows as detectors give them that end with their own suppression.
SCORE, _CLASS = 4, 5

# Errors of detections are summed in whole millionths, which merge exactly.
MILLION = 1_000_000


@dataclass(frozen=True)
class Fit:
    """How well detections fit their counterparts; sums merge exactly.

    Attributes:
        matched: detections that have a counterpart.
        gap: sum of 1 - intersection over union of their boxes, in millionths.
        score_error: sum of the mean errors of their scores, in millionths.
    """

    matched: int = 0
    gap: int = 0
    score_error: int = 0


def by_boxes(
    reference: np.ndarray, candidate: np.ndarray, columns: tuple[int, ...]
) -> tuple[Counted, Fit]:
    """Detections as decisions: changed ones have no counterpart on the other side.

    Args:
        reference: rows of detections, of shape (samples, ..., columns).
        candidate: likewise; the numbers of rows may differ.
        columns: places of the four corners of a box; () for the first four. The others are scores
            (within [0, 1]), classes (whole numbers) and anything else, such as landmarks.
    """
    changed, shown, fits, classes = [], [], [], []
    for one, other in zip(reference, candidate, strict=True):
        lost, count, fit, named = _compare(
            one.reshape(-1, one.shape[-1]).astype(np.float64),
            other.reshape(-1, other.shape[-1]).astype(np.float64),
            list(columns or range(min(4, one.shape[-1]))),
        )
        changed.append(lost)
        shown.append(count)
        fits.append(fit)
        classes.append(named)
    whole = Fit(
        sum(fit.matched for fit in fits),
        sum(fit.gap for fit in fits),
        sum(fit.score_error for fit in fits),
    )
    counts = np.array(changed, np.int64), np.array(shown, np.int64)
    return counted_rows(*counts, count_named(classes)), whole


# Columns of rows that hold a box, a score, a class and little else, such as an angle.
_WIDTHS = range(6, 9)


def first_of_box(values: np.ndarray) -> int | None:
    """The column in which boxes begin, where rows are detections by their values, the best first.

    Such rows hold two corners, a score and a class, or these and a centre with its size in any
    order.

    Args:
        values: an output, batch first; without rows nothing speaks against it.
    """
    if values.ndim != 3 or values.shape[2] <= _CLASS:
        return None
    score, named = values[..., SCORE : SCORE + 1], values[..., _CLASS]
    # The first sample tells most often, without a look at all the others.
    ranked = _rankings(score[:1]).all() and _rankings(score).all()
    if ranked and _are_whole(named) and _ordered(values, 0):
        return 0
    if values.shape[2] not in _WIDTHS:
        return None
    if not len(values) or not _rankings(values[:1]).any():
        return None
    are_whole = (values == np.rint(values)).all(axis=(0, 1))
    ranking = set(np.flatnonzero(_rankings(values) & ~are_whole).tolist())
    whole = set(np.flatnonzero(are_whole).tolist())
    boxes = {first: set(range(first, first + 4)) for first in range(values.shape[2] - 3)}
    starts = [at for at, box in boxes.items() if not box & ranking and not whole <= box]
    if len(ranking) != 1 or not whole:
        return None
    # Numbers of classes are whole, and smaller than pixels.
    sizes = np.abs(values).mean(axis=(0, 1))
    starts.sort(key=lambda at: (len(whole & boxes[at]), -sizes[at : at + 4].min()))
    for fits in (_ordered, _sized):
        found = next((first for first in starts if fits(values, first)), None)
        if found is not None:
            return found
    return None


def _rankings(values: np.ndarray) -> np.ndarray:
    """Which columns hold scores in [0, 1], the best first."""
    inside = ((values >= 0) & (values <= 1)).all(axis=(0, 1))
    return np.asarray(inside & (values[:, 1:] <= values[:, :-1]).all(axis=(0, 1)))


def _are_whole(values: np.ndarray) -> bool:
    return bool((values == np.rint(values)).all())


def _ordered(values: np.ndarray, first: int) -> bool:
    """Whether two corners begin in a column: the second is never the smaller one."""
    low, high = values[..., first : first + 2], values[..., first + 2 : first + 4]
    return bool((high >= low).all())


def _sized(values: np.ndarray, first: int) -> bool:
    """Whether a centre and a size begin in a column: sizes are above zero, or zero in padding."""
    size = values[..., first + 2 : first + 4]
    return bool((size >= 0).all()) and bool(size.any())


def _compare(
    one: np.ndarray, other: np.ndarray, columns: list[int]
) -> tuple[int, int, Fit, np.ndarray]:
    """Detections of one sample without a counterpart, detections in all, how others fit, classes.

    The classes are those of `classes_of`.
    """
    rest = [column for column in range(one.shape[1]) if column not in columns]
    telling = one if one.any() else other  # rows of zeros are padding
    scores = [c for c in rest if len(telling) and _is_score(telling[:, c])]
    lists = one, other
    one, other = (rows[_is_shown(rows, scores)] for rows in lists)
    most = max(len(one), len(other))
    if not most:
        return 0, 1, Fit(), np.empty((0, 3), np.int64)
    pairs, box, other_box = _paired(one, other, columns, rest, scores)
    full = [len(shown) == len(rows) for shown, rows in zip((one, other), lists, strict=True)]
    unscored = [c for c in rest if c not in scores]
    named = _classes((one, other), (box, other_box), pairs, (scores, unscored), full)
    if not len(pairs):
        return most, most, Fit(), named
    i, j = pairs.T
    gap = 1 - overlap(box[i], other_box[j])
    error = np.abs(one[i][:, scores] - other[j][:, scores]).mean(axis=1) if scores else 0 * gap
    fit = Fit(len(pairs), int(np.rint(gap * MILLION).sum()), int(np.rint(error * MILLION).sum()))
    return most - len(pairs), most, fit, named


def _paired(
    one: np.ndarray, other: np.ndarray, columns: list[int], rest: list[int], scores: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of detections that are the same on both sides, and the boxes of either."""
    telling = one if len(one) else other
    centred = not (telling[:, columns[2:4]] >= telling[:, columns[:2]]).all(axis=1).mean() >= 0.5
    box, other_box = (corners(rows[:, columns], centred) for rows in (one, other))
    pairs: list[tuple[int, int]] = []
    free_one, free_other = np.arange(len(one)), np.arange(len(other))
    angles = [c for c in rest if len(one) and c not in scores and _is_angle(one[:, c], box)]
    if len(one) == len(other):  # nearly always each is where it was
        same = _agree(one, other, box, other_box, rest, scores, angles)
        pairs += [(i, i) for i in np.flatnonzero(same).tolist()]
        free_one = free_other = np.flatnonzero(~same)
    if len(free_one) and len(free_other) and max(len(free_one), len(free_other)) <= MOST_PAIRS:
        from scipy.optimize import linear_sum_assignment

        left, right = np.meshgrid(free_one, free_other, indexing="ij")
        sides = one[left], other[right], box[left], other_box[right]
        same = _agree(*sides, rest, scores, angles)
        for i, j in zip(*linear_sum_assignment(same, maximize=True), strict=True):
            if same[i, j]:
                pairs.append((int(free_one[i]), int(free_other[j])))
    return np.array(pairs, np.int64).reshape(-1, 2), box, other_box


def _classes(
    sides: tuple[np.ndarray, np.ndarray],
    boxes: tuple[np.ndarray, np.ndarray],
    pairs: np.ndarray,
    columns: tuple[list[int], list[int]],
    full: list[bool],
) -> np.ndarray:
    """The classes of one sample's detections, as `classes_of` gives them; none without a class.

    Args:
        sides: the detections that are shown.
        boxes: their corners.
        pairs: places of those that are the same on both sides.
        columns: those of scores, and the others beside boxes.
        full: whether a side's list ends with a detection that is shown.
    """
    scores, unscored = columns
    column = class_column(sides[0] if len(sides[0]) else sides[1], unscored)
    if column is None:
        return np.empty((0, 3), np.int64)
    numbers = [rows[:, column] for rows in sides]
    if len(pairs) == len(sides[0]) == len(sides[1]):
        return paired_classes(numbers, pairs)
    free = [np.delete(np.arange(len(rows)), pairs[:, k]) for k, rows in enumerate(sides)]
    same_box = np.zeros((len(free[0]), len(free[1])), bool)
    if same_box.size and max(same_box.shape) <= MOST_PAIRS:
        same_box = overlap(boxes[0][free[0], None], boxes[1][free[1]]) >= SAME_BOX
    best = [rows[:, scores].max(axis=1, initial=0.0) for rows in sides]
    last = min(scored.min(initial=np.inf) for scored in best)
    # What is on one list alone may be just behind the end of the other.
    ends = [max(SHOWN, last) if ended else SHOWN for ended in reversed(full)]
    sure = [
        scored[at] > end + _TIE if scores else np.ones(len(at), bool)
        for scored, at, end in zip(best, free, ends, strict=True)
    ]
    return classes_of(numbers, pairs, free, sure, same_box)


def _is_score(values: np.ndarray) -> bool:
    """Whether a column holds scores: within [0, 1] and not whole numbers throughout."""
    inside = bool(((values >= 0) & (values <= 1)).all())
    return inside and not bool((values == np.rint(values)).all())


def _is_angle(values: np.ndarray, box: np.ndarray) -> bool:
    """Whether a column holds radians beside boxes in pixels."""
    sides = float(np.median(box[:, 2:] - box[:, :2]))
    inside = bool((np.abs(values) <= 2 * np.pi).all()) and sides > 4 * np.pi
    return inside and not _are_whole(values)


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
    # FP16 cannot tell the corners of a sliver apart: it is none if its corners are next to others.
    # They follow from centres and sizes, so the largest of them tells what can be told apart.
    near = (np.abs(one - other) <= 2 * ulp(np.abs(one).max(axis=-1, keepdims=True))).all(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(near, 1.0, np.where(union > 0, common / union, 0.0))


def _agree(
    one: np.ndarray,
    other: np.ndarray,
    box: np.ndarray,
    other_box: np.ndarray,
    rest: list[int],
    scores: list[int],
    angles: list[int],
) -> np.ndarray:
    """Whether detections are the same: box, scores, class and anything else."""
    same = overlap(box, other_box) >= SAME_BOX
    size = (box[..., 2:] - box[..., :2]).max(axis=-1)
    for column in rest:
        expected, received = one[..., column], other[..., column]
        if column in scores or (expected == np.rint(expected)).all():
            same &= np.abs(expected - received) <= SAME_SCORE
        elif column in angles:  # half a turn leaves a box as it is
            apart = np.abs(expected - received) % np.pi
            same &= np.minimum(apart, np.pi - apart) <= SAME_SCORE
        else:  # such as landmarks, in the units of the box
            same &= np.abs(expected - received) <= SAME_SCORE * np.maximum(
                size, np.abs(expected) / 10
            )
    if len(scores) > 1:
        expected, received = one[..., scores], other[..., scores]
        best, chosen = expected.argmax(axis=-1), received.argmax(axis=-1)
        there = np.take_along_axis(expected, chosen[..., None], axis=-1)[..., 0]
        same &= (best == chosen) | (expected.max(axis=-1) - there <= _TIE)
    return same


def counted_rows(
    changed: np.ndarray, shown: np.ndarray, classes: ClassTable | None = None
) -> Counted:
    """The decisions on detections, where each sample has some of its own.

    Args:
        changed: (samples,), the number of detections that were lost, appeared or changed.
        shown: (samples,), the number of detections that were compared.
        classes: the same by class, where detections have one.

    Returns:
        The counts, and the share of each sample's detections that changed.
    """
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
        classes=classes or ClassTable(),
    )
    return decisions, changed / np.maximum(shown, 1)
