"""Differences between outputs: which are compared, and what is measured of them."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.beside import differences, pairs_beside, size_beside


@pytest.mark.parametrize(
    ("sizes", "pairs"),
    [
        ([1, 1, 1], [(0, 1), (0, 2), (1, 2)]),
        ([24, 1, 24, 1], [(0, 2), (1, 3)]),
        ([0, 0, 5], []),
        ([129, 129], []),
        ([1] * 9, [(at, at + 1) for at in range(8)]),
    ],
)
def test_outputs_of_one_size_are_compared_if_they_are_small(sizes, pairs):
    assert pairs_beside(sizes) == pairs


def test_only_numbers_have_differences():
    assert size_beside("float32", 30, 10) == 3
    assert [size_beside(*facts) for facts in (("int64", 10, 10), ("float32", 0, 0))] == [0, 0]


def test_differences_leave_out_what_is_off_by_itself():
    low, high = np.array([[100.0], [200], [300]]), np.array([103.0, 202, 301])
    names = np.array(["a", "b", "c"])
    other = np.array([[101.0], [20], [np.nan]])
    between, nothing, of_names = differences([(low, other), (high, high), (names, names)])
    assert between.error_sq.tolist() == [1]
    assert (between.reference_sq.tolist(), between.edges[:2].tolist()) == ([14], [[1], [3]])
    assert nothing.count == of_names.count == 0
