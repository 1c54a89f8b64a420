"""Values by their size beside others of their sample: exact sums, and what rounding would do."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.bands import BANDS, measure_bands
from tfmp.converters.drift.columns.places import measure_places

GENERATOR = np.random.default_rng(0)


def forces(*shape: int) -> np.ndarray:
    """Numbers of both signs, of which three in ten are near zero."""
    small = GENERATOR.random(shape) < 0.3
    return np.where(small, 0.01, 1.0) * GENERATOR.standard_normal(shape)


def rows(values: np.ndarray) -> np.ndarray:
    return np.moveaxis(values.reshape(len(values), -1, values.shape[-1]), 1, 2)


def test_values_of_both_signs_have_bands_beside_those_of_one():
    reference = np.concatenate([forces(30, 60), np.abs(forces(10, 60))])[..., None]
    _, counts = measure_bands(rows(reference), rows(reference), True)
    assert (sum(counts[:BANDS]), sum(counts[BANDS:])) == (10 * 60, 30 * 60)
    _, counts = measure_bands(rows(reference), rows(reference), False)
    assert (sum(counts[:BANDS]), sum(counts[BANDS:])) == (10 * 60, 0)
    _, counts = measure_bands(rows(reference[:, :15]), rows(reference[:, :15]), True)
    assert not sum(counts[BANDS:])  # so few places say nothing


def test_each_channel_has_bands_of_its_own():
    reference = forces(30, 60, 2) * [1.0, 1000.0]
    _, counts = measure_bands(rows(reference), rows(reference), True)
    halves = [measure_bands(rows(each), rows(each), True)[1] for each in np.split(reference, 2, 2)]
    assert counts == tuple(np.sum(halves, axis=0))


def test_errors_as_large_as_those_of_large_values():
    reference = np.where(np.arange(40) < 20, 1.0, -0.02) * np.ones((30, 1))
    found, counts = measure_bands(
        *(rows(each[..., None]) for each in (reference, 1.1 * reference)), True
    )
    np.testing.assert_allclose(found.error_sq[BANDS:], [600 * 0.01, 0, 600 * 4e-6, 0, 0, 0])
    np.testing.assert_allclose(found.reference_sum[BANDS:], [600 * 0.01, 0, 600 * 0.01, 0, 0, 0])
    assert counts[BANDS:] == (600, 0, 600, 0, 0, 0)
    found, _ = measure_bands(*(rows(each[..., None]) for each in (reference, reference)), True)
    assert found.reference_sum[BANDS] == pytest.approx(600 * 2.0**-22)  # which rounding may be off


@pytest.mark.parametrize("shape", [(20, 100), (20, 9, 9, 100)])
def test_columns_with_levels_and_hidden_features_have_no_bands_of_both_signs(shape):
    reference = forces(*shape)
    assert not sum(measure_places(reference, reference, -1).counts)
