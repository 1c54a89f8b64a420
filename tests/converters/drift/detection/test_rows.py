"""Lists of rows whose number depends on the data."""

import numpy as np

from tfmp.converters.drift.detection.rows import by_rows, pair_rows


def test_rows_of_lists_keep_their_order():
    reference = np.array([[1.0, 10], [5, 50], [9, 90]])
    one, other = pair_rows(reference, reference[[0, 2]] * 1.001)
    np.testing.assert_allclose(one, other, rtol=2e-3)
    assert one.tolist() == [[1, 10], [9, 90]]
    shuffled, _ = pair_rows(reference, reference[[2, 1]])
    assert len(shuffled) == 1
    words, _ = pair_rows(np.array(["a", "red", "fox"]), np.array(["a", "fox"]))
    assert words.tolist() == ["a", "fox"]
    counted = by_rows(reference, reference[:2], 2)
    assert (counted.changed, counted.decisions) == (1, 3)
