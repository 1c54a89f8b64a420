"""What lies between columns, and whole numbers among others."""

import numpy as np

from tfmp.converters.drift.columns.measuring import contrast_pairs, distances_by_column

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


def test_whole_numbers_that_become_others():
    found = sliced(np.add(VALUES, [1, 0.4, 1]))
    assert (found["fractions"], found["steps"]) == ((0, 0, 2), (2, 0, 0))
    large = np.array([[4001.0, 0.5]])  # FP16 has 4000 and 4002
    assert sliced(np.add(large, [1, 0]), large)["steps"] == (0, 0)
