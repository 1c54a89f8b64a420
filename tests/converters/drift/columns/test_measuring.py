"""What lies between columns, and whole numbers among others."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.measuring import (
    contrast_pairs,
    contrast_rows,
    distances_by_column,
)

VALUES = np.array([[100.0, 103, 1.5], [200, 202, 2.5]])


def sliced(candidate, reference=VALUES):
    return distances_by_column(reference, candidate, None, {"normalized": False}, None)[1]


def test_differences_of_columns():
    assert contrast_pairs(3).tolist() == [[0, 0, 1], [1, 2, 2]]
    assert contrast_pairs(20).shape == (2, 19)
    assert not contrast_pairs(64).size
    other = np.add(VALUES, [0, 1, 0])
    contrasts = sliced(other)["contrasts"]
    assert contrasts.error_sq.tolist() == [2, 0, 2]
    assert contrasts.reference_sum.tolist() == [5, -296, -301]
    broken = np.add(VALUES, [0, np.nan, 0])
    assert sliced(broken)["contrasts"].error_sq.tolist() == [0, 0, 0]


def test_differences_of_columns_in_a_few_of_many_rows():
    values = np.broadcast_to(np.arange(3.0), (5, 30, 30, 3))
    other = np.add(values, [0, 1, 0])
    contrasts = sliced(other, values)["contrasts"]
    rows = len(contrast_rows((30, 30), 3))
    assert 60 < rows <= 256 // 3
    assert contrasts.error_sq.tolist() == [5 * rows, 0, 5 * rows]
    assert contrasts.reference_sum.tolist() == [5 * rows, 10 * rows, 5 * rows]
    assert len(contrast_rows((12,), 3)) == 12


def test_whole_numbers_that_become_others():
    found = sliced(np.add(VALUES, [1, 0.4, 1]))
    assert (found["fractions"], found["steps"]) == ((0, 0, 2), (2, 0, 0))
    large = np.array([[4001.0, 0.5]])  # FP16 has 4000 and 4002
    assert sliced(np.add(large, [1, 0]), large)["steps"] == (0, 0)


@pytest.mark.parametrize(("fill", "written"), [(-1e9, -65504), (-1e9, -np.inf), (1e9, np.inf)])
def test_a_place_that_is_forbidden_alone_is_left_aside(fill, written):
    reference, candidate = (np.where(VALUES == 103, each, VALUES / 100) for each in (fill, written))
    found, _ = distances_by_column(reference, candidate, None, {"normalized": False}, None)
    assert found.error_sq.tolist() == [0, 0]
    assert (found.fields["nonfinite"], found.fields["saturated"]) == (0, 0)
    lost = np.where(VALUES == 103, -1e5, VALUES / 100)  # may be an amount
    found, _ = distances_by_column(lost, candidate, None, {"normalized": False}, None)
    assert found.fields["nonfinite"] + found.fields["saturated"] == 1
