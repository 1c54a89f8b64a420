"""Lists of items, such as detections or search results, whose parts are outputs of their own.

Two items of one score may change places in such a list, with everything that is said of them. Each
output by itself would then be wrong at both places. So the candidate's items are put into the order
of the reference's first, and one that changed without its score has no counterpart.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfmp.converters.drift import ROW_SUM_TOLERANCE, TIE
from tfmp.converters.drift.detection.boxes import (
    MOST_PAIRS,
    SAME_BOX,
    SAME_SCORE,
    corners,
    overlap,
)

Pair = tuple[np.ndarray, np.ndarray]


def find_list(outputs: Mapping[str, Pair]) -> tuple[str, ...]:
    """The outputs of one batch that are a list, with those of the same number of items; or ().

    A list is known by scores that are sorted, the best first in each sample, beside boxes or names;
    or by boxes as a centre and a size in terms of the image, beside scores of classes, as queries
    have them.
    """
    even = {
        name: one
        for name, (one, other) in outputs.items()
        if one.shape == other.shape and one.ndim > 1 and 2 <= one.shape[1] <= MOST_PAIRS
    }
    scores = [name for name, each in even.items() if _are_scores(each) and _is_sorted(each)]
    boxes = [name for name, each in even.items() if _are_boxes(each)]
    queries = len(boxes) == 1 and _are_queries(even[boxes[0]])
    if len(scores) != 1 and not queries:
        return ()
    shape = even[scores[0] if len(scores) == 1 else boxes[0]].shape[:2]
    found = [name for name, each in even.items() if each.shape[:2] == shape]
    ranked = any(_are_boxes(even[name]) or _are_names(even[name]) for name in found)
    return tuple(found) if len(found) > 1 and ranked else ()


def _are_boxes(values: np.ndarray) -> bool:
    return values.ndim == 3 and values.shape[2] == 4 and values.dtype.kind == "f"


def _are_names(values: np.ndarray) -> bool:
    """Whether values are one whole number for each item."""
    numbers = values.ndim == 2 and values.dtype.kind in "fiu"
    return numbers and bool((values == np.rint(values)).all())


def _are_scores(values: np.ndarray) -> bool:
    return values.ndim == 2 and values.dtype.kind == "f" and not _are_names(values)


def _are_queries(boxes: np.ndarray) -> bool:
    """Whether boxes are a centre and a size in terms of the image, and no shares of a whole."""
    inside = (boxes >= 0).all() and (boxes <= 1).all() and (boxes[..., 2:] > 0).all()
    return bool(inside and (np.abs(boxes.sum(axis=-1) - 1) > ROW_SUM_TOLERANCE).any())


def _is_sorted(scores: np.ndarray, step: float = 0.0) -> bool:
    """Whether the best come first, but for steps up that are no larger a share."""
    with np.errstate(invalid="ignore"):
        least = scores[..., 1:] - step * np.abs(scores[..., 1:])
    return bool((least <= scores[..., :-1]).all())


def in_order(names: Sequence[str], outputs: Mapping[str, Pair]) -> dict[str, Pair]:
    """The outputs with the candidate's items where their counterparts are, as far as they have one.

    Args:
        names: outputs that are a list, as `find_list` gives them.
        outputs: values of both sides by output; others than the list's stay as they are.
    """
    pairs = [_comparable(*outputs[name]) for name in names if outputs[name][0].ndim < 4]
    samples, items = pairs[0][0].shape[:2]
    places = np.broadcast_to(np.arange(items), (samples, items)).copy()
    moved = ~np.all([_same(*pair) for pair in pairs], axis=0).all(axis=1)
    for sample in np.flatnonzero(moved).tolist():
        own = [(one[sample], other[sample]) for one, other in pairs]
        sorted_ones = [other for one, other in own if one.ndim == 1 and _are_scores(one[None])]
        if all(_is_sorted(other, TIE) for other in sorted_ones):
            same = [_same(one[:, None], other[None], one.ndim > 1) for one, other in own]
            places[sample] = _assigned(np.all(same, axis=0))
    rows = np.arange(samples)[:, None]
    chosen = {name: (outputs[name][0], outputs[name][1][rows, places]) for name in names}
    return {**outputs, **chosen}


def _comparable(one: np.ndarray, other: np.ndarray) -> Pair:
    """Both sides in float64, boxes as their corners."""
    boxes = _are_boxes(one)
    one, other = one.astype(np.float64), other.astype(np.float64)
    if not boxes:
        return one, other
    centred = not (one[..., 2:] >= one[..., :2]).all(axis=-1).mean() >= 0.5
    return corners(one, centred), corners(other, centred)


def _same(expected: np.ndarray, received: np.ndarray, several: bool | None = None) -> np.ndarray:
    """Which items are the same by one output: names, boxes, or scores as far as these tell.

    Args:
        expected: of the reference.
        received: of the candidate.
        several: whether the last axis is of one item; None where the third one is.
    """
    several = expected.ndim == 3 if several is None else several
    with np.errstate(invalid="ignore", over="ignore"):
        if several and expected.shape[-1] == 4:
            return np.asarray(overlap(expected, received) >= SAME_BOX)
        error, size = np.abs(expected - received), np.maximum(np.abs(expected), 1.0)
        if several:
            error, size = error.max(axis=-1), size.max(axis=-1)
        return np.asarray(error <= SAME_SCORE * (size if several else 1.0))


def _assigned(same: np.ndarray) -> np.ndarray:
    """For each row the place of its counterpart, by what may be the same as what."""
    from scipy.optimize import linear_sum_assignment

    # Of several counterparts, the one in its own place.
    rows, columns = linear_sum_assignment(2.0 * same + np.eye(len(same)), maximize=True)
    fits = same[rows, columns]
    found = np.full(len(same), -1)
    found[rows[fits]] = columns[fits]
    # A row without a counterpart stays where it is, or takes a place that is left.
    open_places = [place for place in range(len(same)) if place not in set(found.tolist())]
    for row in np.flatnonzero(found < 0).tolist():
        found[row] = open_places.pop(open_places.index(row) if row in open_places else 0)
    return found
