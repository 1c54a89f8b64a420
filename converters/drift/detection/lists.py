"""Lists of items, such as detections or search results, whose parts are outputs of their own.

Two items of one score may change places in such a list, with everything that is said of them. Each
output by itself would then be wrong at both places. So the candidate's items are put into the order
of the reference's first, and one that changed without its score has no counterpart.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfmp.converters.drift import ROW_SUM_TOLERANCE, TIE
from tfmp.converters.drift.detection.boxes import MOST_PAIRS, counterparts

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
    parts = [outputs[name] for name in names if outputs[name][0].ndim < 4]
    samples, items = parts[0][0].shape[:2]
    one, other = (
        np.concatenate([np.float64(each[side]).reshape(samples, items, -1) for each in parts], 2)
        for side in (0, 1)
    )
    widths = [part[0][0, 0].size for part in parts]
    first = next((sum(widths[:at]) for at, each in enumerate(parts) if _are_boxes(each[0])), None)
    columns = [] if first is None else [*range(first, first + 4)]
    scores = [each for part, each in parts if _are_scores(part)]
    places = np.broadcast_to(np.arange(items), (samples, items)).copy()
    for sample in range(samples):
        if all(_is_sorted(each[sample], TIE) for each in scores):
            places[sample] = _filled(counterparts(one[sample], other[sample], columns))
    rows = np.arange(samples)[:, None]
    chosen = {name: (outputs[name][0], outputs[name][1][rows, places]) for name in names}
    return {**outputs, **chosen}


def _filled(places: np.ndarray) -> np.ndarray:
    """The places, where an item without a counterpart keeps its own, or takes one that is left."""
    left = np.setdiff1d(np.arange(len(places)), places).tolist()
    for row in np.flatnonzero(places < 0).tolist():
        places[row] = left.pop(left.index(row) if row in left else 0)
    return places
