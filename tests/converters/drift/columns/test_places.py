"""A few places of each sample: which ones, and sums that do not depend on batches."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.places import BANDS, MOST_PLACES, Places, measure_places
from tfmp.converters.drift.exact import merge

GENERATOR = np.random.default_rng(0)


def pair(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    reference = GENERATOR.standard_normal(shape).astype(np.float32)
    return reference, reference.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("shape", [(40, 7), (40, 900), (40, 30, 30, 3), (40, 5, 40), (40, 4, 1)])
@pytest.mark.parametrize("sign", ["any", "one"])
def test_any_split_gives_the_same_sums(shape, sign):
    reference, candidate = pair(*shape)
    if sign == "one":
        reference, candidate = np.abs(reference), np.abs(candidate)
    whole = measure_places(reference, candidate, -1)
    for step in (1, 3, 16):
        merged = Places()
        for start in range(0, 40, step):
            part = slice(start, start + step)
            merged = merge(measure_places(reference[part], candidate[part], -1), merged)
        assert merged == whole


def test_channels_have_places_of_their_own():
    reference, candidate = pair(20, 30, 30, 3)
    found = measure_places(reference, candidate, -1)
    assert (found.sizes, found.channels) == ((30, 30, 3), 3)
    assert found.spread.count <= MOST_PLACES + 3 + 1
    candidate = reference.copy()
    candidate[..., 1] += 1
    found = measure_places(reference, candidate, -1)
    each = (found.spread.count - 4) // 3
    assert each > 60
    errors = found.spread.error_sq
    assert not errors[:each].any()
    np.testing.assert_allclose(errors[each : 2 * each], 20, rtol=1e-5)
    first = measure_places(np.moveaxis(reference, -1, 1), np.moveaxis(candidate, -1, 1), 1)
    assert first == found


def test_means_of_samples():
    reference, _ = pair(50, 8)
    found = measure_places(reference, reference + np.arange(8), -1)
    assert found.spread.count == 9
    assert found.spread.error_sq[-1] == pytest.approx(50 * 3.5**2)
    assert found.spread.reference_sum[-1] == pytest.approx(reference.mean(axis=1).sum(), abs=1e-6)


def test_bands_of_sizes():
    reference = np.abs(pair(30, 100)[0]) + 10
    reference[:, :5] = 0.3
    candidate = reference.copy()
    candidate[:, :5] = 0.05
    found = measure_places(reference, candidate, -1)
    assert found.counts == (30 * 95, 0, 30 * 5, 0, 0, 0)
    assert found.bands.count == BANDS
    np.testing.assert_allclose(found.bands.error_sq, [0, 0, 150 * 0.25**2, 0, 0, 0], atol=1e-5)
    assert not sum(measure_places(-reference + 11, candidate, -1).counts)


def test_values_that_are_not_finite_are_left_out():
    reference, candidate = pair(10, 6)
    candidate[3, 2] = np.inf
    found = measure_places(reference, candidate, -1)
    assert np.isfinite(found.spread.error_sq).all()


def test_a_shape_that_was_changed_is_unknown():
    assert measure_places(*pair(10, 6, 5, 2), -1).sizes == (6, 5, 2)
    assert Places("9x<b>").sizes == ()
