"""Places that are spread evenly over a grid."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.grid import even


def test_all_of_a_small_grid():
    assert even((2, 3), 6).tolist() == [0, 1, 2, 3, 4, 5]
    assert even((), 4).tolist() == [0]


@pytest.mark.parametrize("start", [0.0, 0.5])
def test_some_of_a_large_one_lie_in_each_part(start):
    rows, columns = np.unravel_index(even((40, 60), 64, start), (40, 60))
    assert 48 < len(rows) <= 64
    quarters = np.bincount(rows // 20 * 2 + columns // 30)
    assert quarters.min() > 12
    assert (0 in even((40, 60), 64, start)) == (start == 0)
