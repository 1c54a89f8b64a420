"""A few places of each sample: which ones, and sums that do not depend on batches."""

import numpy as np
import pytest

from tfmp.converters.drift.columns.bands import BANDS
from tfmp.converters.drift.columns.places import (
    LEVELS,
    MOST_PLACES,
    Places,
    level_ends,
    measure_places,
)
from tfmp.converters.drift.exact import merge

GENERATOR = np.random.default_rng(0)


def pair(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    reference = GENERATOR.standard_normal(shape).astype(np.float32)
    return reference, reference.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(
    "shape", [(40, 7), (40, 900), (40, 30, 30, 3), (40, 5, 40), (40, 4, 1), (40, 90)]
)
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
    assert found.counts == (30 * 95, 0, 30 * 5, 0, 0, 0) + (0,) * BANDS
    assert found.bands.count == 2 * BANDS
    errors = found.bands.error_sq[:BANDS]
    np.testing.assert_allclose(errors, [0, 0, 150 * 0.25**2, 0, 0, 0], atol=1e-5)
    assert not sum(measure_places(-reference + 11, candidate, -1).counts)


@pytest.mark.parametrize("shape", [(10, 6), (10, 40), (10, 6, 40)])
def test_values_that_are_not_finite_are_left_out(shape):
    reference, candidate = pair(*shape)
    candidate[3, 2] = np.inf
    found = measure_places(reference, candidate, -1)
    assert np.isfinite(found.spread.error_sq).all()
    assert np.isfinite(found.levels.error_sq).all()


@pytest.mark.parametrize("columns", [3, 40])
def test_levels_of_each_column(columns):
    reference = np.where(np.arange(30) < 10, 0.3, 20.0)[:, None] * np.ones(columns)
    found = measure_places(reference, reference + (np.arange(columns) == 0), -1)
    counts = np.array(found.level_counts).reshape(columns, LEVELS)
    errors = found.levels.error_sq.reshape(counts.shape)
    small, large = np.flatnonzero(counts[0])
    assert [level_ends()[at] for at in (small, large)] == [0.5, 32.0]
    assert (counts[:, [small, large]] == [10, 20]).all()
    np.testing.assert_allclose(errors[:, [small, large]], [[10, 20]] + [[0, 0]] * (columns - 1))
    whole = np.repeat(reference[:, None], 7, axis=1)  # of series, each channel by its own size
    assert measure_places(whole, whole, -1).level_counts == found.level_counts


def test_so_many_columns_have_no_levels():
    assert not measure_places(*pair(10, 200), -1).level_counts
    assert measure_places(*pair(10, 100), -1).level_counts
    assert not measure_places(*pair(10, 7, 100), -1).level_counts


def test_a_shape_that_was_changed_is_unknown():
    assert measure_places(*pair(10, 6, 5, 2), -1).sizes == (6, 5, 2)
    assert Places("9x<b>").sizes == ()
