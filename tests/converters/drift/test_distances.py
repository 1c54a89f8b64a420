"""The pass over the data: sums as a plain computation gives them, whatever the batch."""

from fractions import Fraction

import numpy as np
import pytest

from tfmp.converters.drift.distances import measure_distances

# Samples that share a piece, that are cut between planes, between rows of a plane and within a row;
# narrow and wide columns; rows beyond the buffers of `einsum`; and nothing to cut.
SHAPES = [
    (40, 5, 7, 4),
    (3, 30, 20, 300),
    (2, 3, 700, 100),
    (2, 2, 2**17 + 9),
    (3, 3, 9_000),
    (3, 9_001),
    (5, 8_400, 4),
    (7, 1, 1, 1),
    (2, 300, 1),
    (6, 3),
    (6,),
]


def pair(shape, seed=0, dtype=np.float32):
    generator = np.random.default_rng(seed)
    scale = 10.0 ** generator.uniform(-3, 3, shape[-1])
    reference = (generator.standard_normal(shape) * scale).astype(dtype)
    candidate = reference * (1 + 1e-3 * generator.standard_normal(shape))
    return reference, candidate.astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_by_sample(shape):
    reference, candidate = pair(shape)
    found, error_sq, reference_sq = measure_distances(reference, candidate)
    one, other = (
        values.astype(np.float64).reshape(len(values), -1) for values in (reference, candidate)
    )
    np.testing.assert_allclose(error_sq, np.square(other - one).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(reference_sq, np.square(one).sum(axis=1), rtol=1e-12)
    assert found["candidate_sq"][0] == pytest.approx(np.square(other).sum(), rel=1e-12)
    assert found["max_abs"] == np.abs(other - one).max()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sample_has_the_same_sums_in_every_batch(shape):
    reference, candidate = pair(shape)
    _, *whole = measure_distances(reference, candidate)
    for row in range(len(reference)):
        part = slice(row, row + 1)
        _, *single = measure_distances(reference[part].copy(), candidate[part].copy())
        assert [one[0] for one in single] == [one[row] for one in whole]


def test_values_that_are_not_finite_count_as_zeros():
    reference, candidate = pair((4, 3, 5))
    broken, hidden = candidate.copy(), candidate.copy()
    broken[1, 2, 3] = np.nan
    broken[0, 0, 0] = -np.inf
    cleared = reference.copy()
    for place in ((1, 2, 3), (0, 0, 0)):
        cleared[place] = hidden[place] = 0
    found, *sums = measure_distances(reference, broken)
    np.testing.assert_array_equal(sums, measure_distances(cleared, hidden)[1:])
    assert found["nonfinite"] == 2
    assert found["measured"] == reference.size - 2


@pytest.mark.parametrize("shape", [(0, 3), (3, 0, 4), (0,)])
def test_without_values_there_is_no_distance(shape):
    assert measure_distances(np.zeros(shape), np.zeros(shape))[0]["max_abs"] == 0


def test_sums_hold_what_float32_would_lose():
    reference = np.full((1, 1000), 1.0, np.float32)
    reference[0, 0] = 2.0**13
    candidate = reference + np.float32(2.0**-23)
    found = measure_distances(reference, candidate)[0]
    assert found["reference_sq"][0] == 999 + 2.0**26
    exact = sum(
        (Fraction(float(b)) - Fraction(float(a))) ** 2
        for a, b in zip(reference[0], candidate[0], strict=True)
    )
    assert Fraction(found["error_sq"][0]) == exact
