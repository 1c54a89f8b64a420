"""Choices between values of which one may be anything."""

import numpy as np
import pytest
from exported_functions import run_both
from keras import ops

X = np.array([[0.0, 1.0, -2.0, 0.0]], np.float32)


@pytest.mark.parametrize(
    "guarded",
    [
        lambda x: ops.where(x == 0, 1.0, 1 / x),
        lambda x: ops.where(x > 0, ops.log(x), x),
        lambda x: ops.where(x != 0, ops.exp(x), 1 / x * 0),
        ops.sinc,
    ],
)
def test_what_is_not_selected_may_be_infinite_or_not_a_number(guarded):
    expected, received = run_both(guarded, X)
    np.testing.assert_allclose(received, expected, rtol=1e-6)
    assert np.isfinite(received).any()
