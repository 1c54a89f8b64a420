"""Arithmetic where ONNX and TensorFlow round or sign differently."""

import numpy as np
import pytest
from exported_functions import run_both
from keras import ops

SIGNS = np.array([[-7, -6, -1, 0, 1, 5, 7]], np.int32)


@pytest.mark.parametrize("divisor", [3, -3])
@pytest.mark.parametrize("function", [ops.floor_divide, ops.mod])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_division_rounds_down_whatever_the_signs(function, divisor, dtype):
    """The probe of an export has no negative integers: ids of a vocabulary are all it may try."""
    expected, received = run_both(lambda x: function(x, dtype(divisor)), SIGNS.astype(dtype))
    np.testing.assert_array_equal(expected, function(SIGNS, divisor))
    np.testing.assert_array_equal(received, expected)


def test_the_remainder_of_a_large_quotient():
    x = np.array([[1e7, -1e7, 12345678.0, 0.0]], np.float32)
    expected, received = run_both(lambda x: ops.mod(x, np.float32(0.7)), x)
    np.testing.assert_allclose(received, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_bits_move_down_and_the_sign_stays(dtype):
    x = np.array([[-128, -7, -1, 0, 1, 7, 127]]).astype(dtype)
    expected, received = run_both(lambda x: ops.right_shift(x, dtype(2)), x)
    np.testing.assert_array_equal(expected, x >> dtype(2))
    np.testing.assert_array_equal(received, expected)
