"""Distances from 1 and 100: their levels, and sums that do not depend on batches."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.ceilings import (
    CEILING_LEVELS,
    CEILINGS,
    ceiling_ends,
    measure_ceilings,
)

GENERATOR = np.random.default_rng(0)


def test_levels_of_the_distance():
    reference = np.array([[0.99, 99.0], [0.3, 20.0], [1.0, 0.9], [-0.99, 300.0]])
    candidate = np.add(reference, [0.01, 1.0])
    found, counts = measure_ceilings(reference, candidate)
    by_level = np.array(counts).reshape(2, len(CEILINGS), CEILING_LEVELS)
    assert by_level[0, 0].tolist() == [2, 0, 0, 1, 0, 0, 0, 1]
    assert by_level[1].tolist() == [[0, 1, 0, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 0, 0]]
    errors, distances = (
        sums.reshape(by_level.shape) for sums in (found.error_sq, found.reference_sum)
    )
    np.testing.assert_allclose(errors[:, [0, 1], 3], [[1e-4, 0], [0, 1e-4]], rtol=1e-6)
    np.testing.assert_allclose(distances[:, [0, 1], 3], [[0.01, 0], [0, 0.01]], rtol=1e-6)
    assert ceiling_ends()[3] == 1 / 64


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 17), (40, 6, 5)])
def test_rows_of_a_few_columns_have_levels(shape):
    reference = GENERATOR.random(shape)
    assert measure_ceilings(reference, reference)[1] == ()
