"""errors: what is said of arrays that float32 itself does not keep finite."""

import numpy as np
import pytest

from tfmp.precision.measuring.errors import errors

INF = np.inf


@pytest.mark.parametrize(
    ("found", "exact", "error"),
    [
        ([INF, 2.0], [INF, 1.0], 0.0),  # no deviation to measure with
        ([INF, INF], [INF, 1.0], INF),
        ([1.0, INF], [1.0, 3.0], INF),
        ([1.0, 4.0], [1.0, 3.0], np.sqrt(0.5)),
    ],
)
def test_what_float32_keeps_finite_has_to_be_finite(found, exact, error):
    assert errors([np.array(found)], [np.array(exact)], [0.0]) == [pytest.approx(error)]
