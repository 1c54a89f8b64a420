"""Number facts against IEEE 754's tables and NumPy's own half type."""

import numpy as np

from tfmp.shared.numerics import BFLOAT16, FLOAT16, round_to, ulp

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def test_limits_are_those_of_ieee_754():
    assert (FLOAT16.max, FLOAT16.smallest_normal, FLOAT16.eps) == (65504, 2.0**-14, 2.0**-10)
    assert (FLOAT16.overflow_threshold, FLOAT16.smallest_subnormal) == (65520, 2.0**-24)
    # bfloat16 is float32 cut to 16 bits: 0x7f7f0000, 0x00800000 and 0x00010000.
    bits = np.array([0x7F7F0000, 0x00800000, 0x00010000], np.uint32).view(np.float32)
    assert [BFLOAT16.max, BFLOAT16.smallest_normal, BFLOAT16.smallest_subnormal] == bits.tolist()


def test_rounding_goes_to_the_nearest_ties_to_even():
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, 1e-41], np.float32)
    expected = np.array([1, 1 + 2**-6, 1 + 2**-7, np.inf, 2.0**-133 * 1], np.float32)
    received = round_to(values, BFLOAT16)
    np.testing.assert_array_equal(received[:4], expected[:4])
    assert received[4] == np.round(1e-41 / 2.0**-133) * 2.0**-133
    assert round_to(np.array([65519.0, -65520.0])).tolist() == [65504.0, -np.inf]
    assert round_to(np.zeros((2, 3), np.float32)).dtype == np.float32
    assert round_to(np.array([[2049]])).tolist() == [[2048.0]]


def test_ulp_is_the_distance_to_the_next_half():
    positive = HALVES[(HALVES > 0) & np.isfinite(HALVES)]
    positive = np.sort(positive)[:-1]
    expected = np.nextafter(positive, np.float16(np.inf)).astype(float) - positive.astype(float)
    np.testing.assert_array_equal(ulp(positive.astype(np.float64)), expected)
    assert ulp(np.array([0.0])).item() == FLOAT16.smallest_subnormal
    assert ulp(np.array([np.inf, np.nan])).tolist() == [32.0, 32.0]
