"""Totals of some of the samples: those that are off by themselves can be left out exactly."""

import numpy as np
import pytest

from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.metrics import drift_of
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import Totals, measure, without_off

GENERATOR = np.random.default_rng(0)
OTHERS = np.arange(60) % 20 != 3


def outputs(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A reference of 60 samples, a candidate that is off on three of them, and keys."""
    reference = GENERATOR.uniform(0.5, 2, (60, *shape)).astype(np.float32)
    candidate = reference.astype(np.float16).astype(np.float32)
    candidate[~OTHERS] *= 3
    return reference, candidate, np.arange(60, dtype=np.uint64)


@pytest.mark.parametrize("shape", [(1,), (4,), (300,), (6, 5), (4, 4, 3)])
@pytest.mark.parametrize("task", [None, Task(Kind.REGRESSION), Task(Kind.EMBEDDING)])
def test_without_the_samples_that_are_off_the_others_are_left(shape, task):
    reference, candidate, keys = outputs(*shape)
    found = without_off(measure(reference, candidate, task, keys))
    expected = measure(reference[OTHERS], candidate[OTHERS], task, keys[OTHERS])
    assert (found.samples, found.values) == (expected.samples, expected.values)
    for name in ("slices", "planes", "extents"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_array_equal(one.error_sq, other.error_sq)
        np.testing.assert_array_equal(one.reference_sq, other.reference_sq)
    np.testing.assert_array_equal(found.places.bands.error_sq, expected.places.bands.error_sq)
    np.testing.assert_array_equal(found.places.spread.error_sq, expected.places.spread.error_sq)
    np.testing.assert_array_equal(found.places.levels.error_sq, expected.places.levels.error_sq)
    assert found.places.level_counts == expected.places.level_counts
    assert (found.places.counts, found.rows) == (expected.places.counts, expected.rows)


@pytest.mark.parametrize("step", [1, 7, 20])
def test_any_split_has_the_same_totals(step):
    reference, candidate, keys = outputs(5, 3)
    whole = measure(reference, candidate, None, keys)
    merged = Totals()
    for start in range(0, 60, step):
        part = slice(start, start + step)
        merged = merge(measure(reference[part], candidate[part], None, keys[part]), merged)
    assert (merged.off, merged.off.samples) == (whole.off, 3)


def test_corners_that_only_some_batches_have_leave_no_trace():
    reference, candidate, keys = outputs(4)
    reference[:30] = np.sort(reference[:30])
    candidate[3] = 0
    whole = drift_of("y", measure(reference, candidate, None, keys))
    parts = [slice(0, 30), slice(30, 60)]
    split = [measure(reference[part], candidate[part], None, keys[part]) for part in parts]
    assert split[0].off.extents.count == 2
    assert drift_of("y", merge(*split)) == whole


def test_samples_that_are_right_are_all_kept():
    reference, candidate, keys = outputs(5)
    totals = measure(reference[OTHERS], candidate[OTHERS], None, keys[OTHERS])
    assert without_off(totals) == totals


@pytest.mark.parametrize("mask", [-30.0, -100.0, -1e9, -np.inf])
def test_masked_classes_are_no_part_of_a_distance(mask):
    task = Task(Kind.CLASSIFICATION)
    reference = GENERATOR.standard_normal((60, 40)).astype(np.float32)
    keys = np.arange(60, dtype=np.uint64)
    plain = drift_of("y", measure(reference[:, :8], reference[:, :8] / 2, task, keys))
    masked = np.where(np.arange(40) < 8, reference, np.float32(mask))
    found = measure(masked, np.where(np.arange(40) < 8, masked / 2, masked), task, keys)
    drift = drift_of("y", found)
    assert drift.rel_l2 == pytest.approx(plain.rel_l2)
    np.testing.assert_allclose(found.rows.values[:, :2], plain.totals.rows.values[:, :2])
    assert drift.flips == plain.flips
