"""What FP16 makes of constants, against counting value by value."""

import tracemalloc

import numpy as np
import onnx_ir as ir
import pytest

from tfmp.converters.onnx.graph import FP16, converted
from tfmp.converters.onnx.graph.constants import constant_facts, facts_of, stores_narrow

TINY = 2.0**-24


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0, -0.0],
        [1.0, -2.0, 0.5],
        [TINY, TINY / 2, np.nextafter(np.float32(TINY / 2), np.float32(1)), -1e-12],
        [65504.0, 65519.99, 65520.0, -1e9],
        [np.inf, -np.inf, np.nan, 3.0],
    ],
)
def test_facts_equal_the_counts_of_every_value(values: list[float]):
    array = np.array(values, np.float32)
    facts = facts_of(array)
    with np.errstate(over="ignore", under="ignore"):
        half = array.astype(np.float16)
    assert facts.vanished == np.count_nonzero((half == 0) & (array != 0))
    assert facts.subnormal == np.count_nonzero((half != 0) & (np.abs(array) < 2.0**-14))
    assert facts.nonzero == np.count_nonzero(array)
    assert facts.overflows == bool(np.any(np.isinf(half) & np.isfinite(array)))


def test_a_large_constant_is_looked_at_in_pieces():
    few = np.array([1e-6, 3e-7, 0.0, 1e-9, np.inf], np.float32)
    large = np.tile(few, 2**23 // 5).reshape(-1, 5)
    large[-1, -1] = 4.0
    tracemalloc.start()
    facts = facts_of(large)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * large.nbytes
    assert (facts.nonzero, facts.vanished) == (len(large) * 4, len(large))
    assert (facts.subnormal, facts.peak) == (len(large) * 2, 4.0)
    assert facts_of(few).lost == 0.0  # with infinity in five, not nearly all are small
    small = large[:, :4].copy()
    assert facts_of(small).lost == pytest.approx(facts_of(few[:4]).lost)


def test_facts_are_kept_until_the_tensor_changes():
    value = ir.Value(name="c", const_value=ir.tensor(np.ones(3, np.float32)))
    first = constant_facts(value)
    assert constant_facts(value) is first
    value.const_value = ir.tensor(np.full(3, 1e9, np.float32))
    assert constant_facts(value).overflows


@pytest.mark.parametrize("place", [(3, 5), (3, slice(None)), (slice(None), 5)])
def test_weights_are_stored_narrow_though_numbers_vanish_but_no_row_or_column(place):
    array = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    array[place] = 1e-17
    assert stores_narrow(ir.Value(name="w", const_value=ir.tensor(array))) is (place == (3, 5))


def test_large_constants_are_rounded_as_numpy_rounds_them():
    every = np.arange(0, 2**32, 65521, dtype=np.uint32).view(np.float32)  # subnormal, infinite, NaN
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = every.astype(np.float16)
    found = converted(ir.tensor(every), FP16, "found").numpy()
    np.testing.assert_array_equal(found, expected)
