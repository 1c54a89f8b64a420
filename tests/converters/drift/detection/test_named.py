"""Classes of detections: what each of them loses, and what is no loss."""

import numpy as np

from tfmp.converters.drift.classes import SUMS
from tfmp.converters.drift.detection.boxes import by_boxes
from tfmp.converters.drift.exact import merge

# Corners, a score and a class.
FOUND = np.array(
    [
        [
            [10, 10, 50, 60, 0.9, 3],
            [100, 90, 130, 140, 0.8, 7],
            [300, 200, 350, 250, 0.55, 3],
            [0, 0, 0, 0, 0, 0],
        ]
    ]
)


def classes(candidate: np.ndarray, reference: np.ndarray = FOUND) -> dict[str, tuple[int, ...]]:
    """By class: decisions of the reference, lost ones, decisions of the candidate, new ones."""
    (counted, _), _ = by_boxes(reference, candidate, (0, 1, 2, 3))
    every, changed = SUMS.index("decisions"), SUMS.index("changed")
    places = every, changed, len(SUMS) + every, len(SUMS) + changed
    return {name: tuple(row[list(places)].tolist()) for name, row in counted.classes.rows.items()}


def with_value(row: int, column: int, value: float) -> np.ndarray:
    candidate = FOUND.copy()
    candidate[0, row, column] = value
    return candidate


def test_a_class_that_is_told_as_another():
    assert classes(FOUND) == {"3": (2, 0, 2, 0), "7": (1, 0, 1, 0)}
    assert classes(with_value(1, 5, 3)) == {"3": (2, 0, 3, 1), "7": (1, 1, 0, 0)}


def test_a_class_that_is_missed():
    assert classes(with_value(1, 4, 0)) == {"3": (2, 0, 2, 0), "7": (1, 1, 0, 0)}
    assert classes(FOUND[:, :0]) == {"3": (2, 1, 0, 0), "7": (1, 1, 0, 0)}
    assert classes(FOUND, np.zeros_like(FOUND)) == {"3": (0, 0, 2, 2), "7": (0, 0, 1, 1)}


def test_what_was_hardly_shown_may_be_missed():
    reference = with_value(1, 4, 0.06)
    assert classes(with_value(1, 4, 0.04), reference)["7"] == (1, 0, 0, 0)


def test_what_ends_a_list_may_be_on_one_of_them_alone():
    full, other = FOUND[:, :3], FOUND[:, :3].copy()
    other[0, 2, :4] += 100
    assert classes(other, full)["3"] == (2, 0, 2, 0)
    other[0, 2, :4], other[0, 1, :4] = full[0, 2, :4], full[0, 1, :4] + 100
    assert classes(other, full)["7"] == (1, 1, 1, 1)


def test_rows_without_a_class_and_with_two_whole_numbers():
    assert classes(FOUND[..., :5], FOUND[..., :5]) == {}
    twice = np.concatenate([FOUND, FOUND[..., 5:]], axis=2)
    assert classes(twice, twice) == {}


def test_batches_merge_to_the_whole():
    reference = np.concatenate([FOUND, with_value(0, 5, 9), np.zeros_like(FOUND)])
    candidate = np.concatenate([with_value(1, 5, 3), FOUND, FOUND])
    parts = [by_boxes(reference[[i]], candidate[[i]], (0, 1, 2, 3))[0][0] for i in range(3)]
    assert merge(*parts) == by_boxes(reference, candidate, (0, 1, 2, 3))[0][0]
