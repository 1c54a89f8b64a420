"""Detections whose boxes, scores and classes are outputs of their own.

Two objects of one score may change places in such lists, with everything that is said of them. Each
output by itself would then be wrong at both places. So the candidate's rows are put into the order
of the reference's first, and a box that changed without its score has no counterpart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import words_of
from tfmp.converters.drift.detection.boxes import MOST_PAIRS, SAME_BOX, SAME_SCORE, overlap

Pair = tuple[np.ndarray, np.ndarray]

_BOX = "box boxes bbox bboxes rect rects".split()
_ROWS = "mask masks keypoint keypoints landmark landmarks".split()

# Lists come the best first; a step up that is no larger is rounding.
_STEP = 0.02


@dataclass(frozen=True)
class Group:
    """Outputs that belong together, row by row.

    Attributes:
        boxes: the output of the boxes, of shape (samples, rows, 4).
        beside: outputs with a number for each row: scores, classes.
        along: outputs with more for each row, such as masks.
    """

    boxes: str
    beside: tuple[str, ...]
    along: tuple[str, ...]


def find_group(outputs: Mapping[str, Pair]) -> Group | None:
    """The outputs of one batch that are a detector's; None if there are none.

    A list of boxes is known by its name. Without one, by numbers beside it that are sorted, and by
    corners of which the second is never the smaller one.
    """
    even = {name: one for name, (one, other) in outputs.items() if one.shape == other.shape}
    lists = [name for name, values in even.items() if _are_boxes(values)]
    named = [name for name in lists if not set(_BOX).isdisjoint(_parts(name))]
    if len(named or lists) != 1:
        return None
    boxes = (named or lists)[0]
    rows = even[boxes].shape[1]
    beside = tuple(
        name
        for name, values in even.items()
        if values.ndim == 2 and values.shape[1] == rows and values.dtype.kind in "fiu"
    )
    if not beside or not 2 <= rows <= MOST_PAIRS:
        return None
    if not named and not (
        any(_is_sorted(even[name]) for name in beside) and _are_corners(even[boxes])
    ):
        return None
    along = tuple(
        name
        for name, values in even.items()
        if values.ndim > 2
        and values.shape[1] == rows
        and name != boxes
        and not set(_ROWS).isdisjoint(_parts(name))
    )
    return Group(boxes, beside, along)


def _parts(name: str) -> list[str]:
    return words_of(name).strip("_").split("_")


def _are_boxes(values: np.ndarray) -> bool:
    return values.ndim == 3 and values.shape[2] == 4 and values.dtype.kind == "f"


def _are_corners(boxes: np.ndarray) -> bool:
    return bool((boxes[..., 2:] >= boxes[..., :2]).all())


def _is_sorted(values: np.ndarray) -> bool:
    """Whether numbers are scores, the best first in each sample."""
    return values.dtype.kind == "f" and bool((np.diff(values, axis=1) <= 0).all())


def in_order(group: Group, outputs: Mapping[str, Pair]) -> dict[str, Pair]:
    """The outputs with the candidate's rows where their counterparts are, as far as they have one.

    Args:
        group: outputs that belong together.
        outputs: values of both sides by output; others than the group's stay as they are.
    """
    boxes, other_boxes = outputs[group.boxes]
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
    same = overlap(boxes.astype(np.float64), other.astype(np.float64)) >= SAME_BOX
    for expected, received in beside:
        same &= np.abs(expected.astype(np.float64) - received) <= SAME_SCORE
    return same


def _keeps_order(expected: np.ndarray, received: np.ndarray) -> bool:
    """Whether a list that comes the best first still does."""
    if expected.dtype.kind != "f" or not (np.diff(expected) <= 0).all():
        return True
    return bool((np.diff(received.astype(np.float64)) <= _STEP).all())


def _found(
    boxes: np.ndarray, other: np.ndarray, beside: list[Pair], free: np.ndarray
) -> np.ndarray:
    """For each free row the place of its counterpart among the candidate's free rows."""
    from scipy.optimize import linear_sum_assignment

    left, right = np.meshgrid(free, free, indexing="ij")
    same = _agree(boxes[left], other[right], [(one[left], two[right]) for one, two in beside])
    rows, columns = linear_sum_assignment(same, maximize=True)
    fits = same[rows, columns]
    found = np.full(len(free), -1)
    found[rows[fits]] = columns[fits]
    # A row without a counterpart stays where it is, or takes a place that is left.
    open_places = [place for place in range(len(free)) if place not in set(found.tolist())]
    for row in np.flatnonzero(found < 0).tolist():
        found[row] = open_places.pop(open_places.index(row) if row in open_places else 0)
    return free[found]
