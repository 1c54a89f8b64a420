"""Detections whose boxes, scores and classes are outputs of their own.

Two objects of one score may change places in such lists, with everything that is said of them. Each
output by itself would then be wrong at both places. So the candidate's rows are put into the order
of the reference's first, and a box that changed without its score has no counterpart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import ROW_SUM_TOLERANCE, words_of
from tfmp.converters.drift.detection.boxes import (
    MOST_PAIRS,
    SAME_BOX,
    SAME_SCORE,
    corners,
    overlap,
)

Pair = tuple[np.ndarray, np.ndarray]

_BOX = "box boxes bbox bboxes rect rects".split()
_ROWS = "mask masks keypoint keypoints landmark landmarks".split()
_SCORES = "logit logits score scores class classes cls prob probs probabilities".split()

# Boxes whose second corner is nowhere the smaller one are corners; a share may have no size.
_MOST = 0.5

# Lists come the best first; a step up that is no larger is rounding.
_STEP = 0.02


@dataclass(frozen=True)
class Group:
    """Outputs that belong together, row by row.

    Attributes:
        boxes: the output of the boxes, of shape (samples, rows, 4).
        beside: outputs with a number for each row, or one for each class: scores, classes.
        along: outputs with more for each row, such as masks.
    """

    boxes: str
    beside: tuple[str, ...]
    along: tuple[str, ...]


def find_group(outputs: Mapping[str, Pair]) -> Group | None:
    """The outputs of one batch that are a detector's; None if there are none.

    A list of boxes is known by its name. Without one, by numbers beside it that are sorted, and by
    corners of which the second is never the smaller one; or by centres and sizes from 0 to 1.
    """
    even = {name: one for name, (one, other) in outputs.items() if one.shape == other.shape}
    lists = [name for name, values in even.items() if _are_boxes(values)]
    named = [name for name in lists if not set(_BOX).isdisjoint(_parts(name))]
    if len(named or lists) != 1:
        return None
    boxes = (named or lists)[0]
    rows = even[boxes].shape[1]
    numbers = {
        name: values
        for name, values in even.items()
        if values.shape[1:2] == (rows,) and values.dtype.kind in "fiu" and name != boxes
    }
    single = tuple(name for name, values in numbers.items() if values.ndim == 2)
    several = tuple(name for name, values in numbers.items() if values.ndim == 3)
    if named:
        beside = single + tuple(name for name in several if _are_scores(name))
    elif any(is_sorted(even[name]) for name in single) and _are_corners(even[boxes]):
        beside = single
    else:
        beside = single + several if several and _are_queries(even[boxes]) else ()
    if not beside or not 2 <= rows <= MOST_PAIRS:
        return None
    along = tuple(
        name
        for name, values in even.items()
        if values.ndim > 2
        and values.shape[1] == rows
        and name not in (boxes, *beside)
        and not set(_ROWS).isdisjoint(_parts(name))
    )
    return Group(boxes, beside, along)


def _parts(name: str) -> list[str]:
    return words_of(name).strip("_").split("_")


def _are_scores(name: str) -> bool:
    return not set(_SCORES).isdisjoint(_parts(name)) and set(_BOX).isdisjoint(_parts(name))


def _are_boxes(values: np.ndarray) -> bool:
    return values.ndim == 3 and values.shape[2] == 4 and values.dtype.kind == "f"


def _are_corners(boxes: np.ndarray) -> bool:
    return bool((boxes[..., 2:] >= boxes[..., :2]).all())


def _are_queries(boxes: np.ndarray) -> bool:
    """Whether boxes are a centre and a size in terms of the image, and no shares of a whole."""
    inside = (boxes >= 0).all() and (boxes <= 1).all() and (boxes[..., 2:] > 0).all()
    return bool(inside and (np.abs(boxes.sum(axis=-1) - 1) > ROW_SUM_TOLERANCE).any())


def is_sorted(values: np.ndarray) -> bool:
    """Whether numbers are scores, the best first in each sample."""
    floats = values.dtype.kind == "f" and values.ndim == 2
    return floats and bool((values[:, 1:] <= values[:, :-1]).all())


def in_order(group: Group, outputs: Mapping[str, Pair]) -> dict[str, Pair]:
    """The outputs with the candidate's rows where their counterparts are, as far as they have one.

    Args:
        group: outputs that belong together.
        outputs: values of both sides by output; others than the group's stay as they are.
    """
    boxes, other_boxes = (values.astype(np.float64) for values in outputs[group.boxes])
    if not (boxes[..., 2:] >= boxes[..., :2]).all(axis=-1).mean() >= _MOST:
        boxes, other_boxes = (corners(values, centred=True) for values in (boxes, other_boxes))
    beside = [outputs[name] for name in group.beside]
    places = np.broadcast_to(np.arange(boxes.shape[1]), boxes.shape[:2]).copy()
    with np.errstate(invalid="ignore", over="ignore"):
        same = _agree(boxes, other_boxes, beside)
        for sample in np.flatnonzero(~same.all(axis=1)).tolist():
            own = [(one[sample], other[sample]) for one, other in beside]
            if all(_keeps_order(*pair) for pair in own):
                free = np.flatnonzero(~same[sample])
                places[sample, free] = _found(boxes[sample], other_boxes[sample], own, free)
    found = dict(outputs)
    if (places == np.arange(boxes.shape[1])).all():
        return found
    samples = np.arange(len(boxes))[:, None]
    for name in (group.boxes, *group.beside, *group.along):
        one, other = outputs[name]
        found[name] = one, other[samples, places]
    return found


def _agree(boxes: np.ndarray, other: np.ndarray, beside: list[Pair]) -> np.ndarray:
    """Whether rows are the same detection, by place."""
    same = np.asarray(overlap(boxes, other) >= SAME_BOX)
    for expected, received in beside:
        error = np.abs(expected[same].astype(np.float64) - received[same])
        if expected.ndim > same.ndim:  # of logits, what is little beside the largest
            size = np.abs(expected[same]).max(axis=-1, initial=1)
            same[same] = error.max(axis=-1, initial=0) <= SAME_SCORE * size
        else:
            same[same] = error <= SAME_SCORE
    return same


def _keeps_order(expected: np.ndarray, received: np.ndarray) -> bool:
    """Whether a list that comes the best first still does."""
    if not is_sorted(expected[None]):
        return True
    return bool((np.diff(received.astype(np.float64)) <= _STEP).all())


def _found(
    boxes: np.ndarray, other: np.ndarray, beside: list[Pair], free: np.ndarray
) -> np.ndarray:
    """For each free row the place of its counterpart among the candidate's free rows."""
    same = np.asarray(overlap(boxes[free, None], other[None, free]) >= SAME_BOX)
    i, j = (free[places] for places in np.nonzero(same))
    same[same] = _agree(boxes[i], other[j], [(one[i], two[j]) for one, two in beside])
    return free[assigned(same)]


def assigned(same: np.ndarray) -> np.ndarray:
    """For each row the place of its counterpart, by what may be the same as what."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(same, maximize=True)
    fits = same[rows, columns]
    found = np.full(len(same), -1)
    found[rows[fits]] = columns[fits]
    # A row without a counterpart stays where it is, or takes a place that is left.
    open_places = [place for place in range(len(same)) if place not in set(found.tolist())]
    for row in np.flatnonzero(found < 0).tolist():
        found[row] = open_places.pop(open_places.index(row) if row in open_places else 0)
    return found
