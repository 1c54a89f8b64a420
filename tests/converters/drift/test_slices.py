"""Distances by channel and column: exact under any split, and right to six digits."""

import pickle

import numpy as np
import pytest

from tfmp.converters.drift import slices
from tfmp.converters.drift.slices import MOST_SLICES, Slices
from tfmp.converters.shared.errors import InputError

GENERATOR = np.random.default_rng(0)
SCALES = 10.0 ** np.arange(-9, 7, 4)
REFERENCE = (GENERATOR.standard_normal((60, 5, 7, 4)) * SCALES).astype(np.float32)
CANDIDATE = (REFERENCE * (1 + 1e-3 * GENERATOR.standard_normal(REFERENCE.shape))).astype(np.float32)


def by_hand(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    one, other = (values.astype(np.float64).reshape(-1, 4) for values in (reference, candidate))
    return ((other - one) ** 2).sum(axis=0), (one**2).sum(axis=0)


def test_sums_and_ranges_of_channels_that_differ_by_many_powers_of_ten():
    found = Slices.of(REFERENCE, CANDIDATE, -1)
    error, square = by_hand(REFERENCE, CANDIDATE)
    assert found.count == 4
    np.testing.assert_allclose(found.error_sq, error, rtol=1e-5)
    np.testing.assert_allclose(found.reference_sq, square, rtol=1e-5)
    total = REFERENCE.astype(np.float64).sum(axis=(0, 1, 2))
    np.testing.assert_allclose(found.reference_sum, total, rtol=1e-5, atol=1e-7 * abs(total).max())
    flat = REFERENCE.reshape(-1, 4)
    np.testing.assert_array_equal(found.edges[0], flat.min(axis=0))
    np.testing.assert_array_equal(found.edges[3], CANDIDATE.reshape(-1, 4).max(axis=0))


def test_channels_first():
    moved = [np.moveaxis(values, -1, 1) for values in (REFERENCE, CANDIDATE)]
    assert Slices.of(*moved, 1).count == 4
    np.testing.assert_allclose(
        Slices.of(*moved, 1).error_sq, Slices.of(REFERENCE, CANDIDATE, -1).error_sq, rtol=1e-5
    )


@pytest.mark.parametrize("waiting", [0, 200, 2**16])
@pytest.mark.parametrize("step", [1, 7, 59])
def test_any_split_and_order_gives_the_same(step, waiting, monkeypatch):
    monkeypatch.setattr(slices, "_MOST_WAITING", waiting)
    merged = Slices()
    for start in reversed(range(0, 60, step)):
        part = slice(start, start + step)
        merged = merged.merged(Slices.of(REFERENCE[part], CANDIDATE[part], -1))
    assert merged == Slices.of(REFERENCE, CANDIDATE, -1)
    assert Slices.from_json(merged.to_json()) == merged


def test_few_sums_of_samples_wait_for_others(monkeypatch):
    monkeypatch.setattr(slices, "_MOST_WAITING", 100)
    merged = Slices()
    for row in range(60):  # 12 numbers each
        merged = merged.merged(Slices.of(REFERENCE[[row]], CANDIDATE[[row]], -1))
        assert len(pickle.dumps(merged)) < 8_000


def test_one_value_a_sample_is_one_slice_and_neighbours_share_one():
    assert Slices.of(np.ones(5), np.ones(5), -1).count == 1
    assert Slices.of(np.ones((5, 1)), np.ones((5, 1)), -1).count == 1
    wide = np.ones((2, 3 * MOST_SLICES + 1))
    changed = wide.copy()
    changed[:, -1] = 0
    found = Slices.of(wide, changed, -1)
    assert found.count == MOST_SLICES
    assert np.flatnonzero(found.error_sq).tolist() == [MOST_SLICES - 1]
    assert found.reference_sq.sum() == wide.size


def test_values_that_are_not_finite_are_left_out():
    candidate = CANDIDATE.copy()
    candidate[0, 0, 0, 0] = np.inf
    assert np.isfinite(Slices.of(REFERENCE, candidate, -1).error_sq).all()


def test_batches_of_other_widths_have_no_slices_together():
    other = Slices.of(REFERENCE[..., :3], CANDIDATE[..., :3], -1)
    merged = other.merged(Slices.of(REFERENCE, CANDIDATE, -1))
    assert merged.count == 0
    assert Slices.from_json(merged.to_json()).merged(other).count == 0


@pytest.mark.parametrize("change", [{"slices": 5}, {"edges": "x"}, {"error_sq": None}])
def test_a_changed_document_is_refused(change):
    document = {**Slices.of(REFERENCE, CANDIDATE, -1).to_json(), **change}
    with pytest.raises(InputError, match="table of slices in the report cannot be read"):
        Slices.from_json(document)
