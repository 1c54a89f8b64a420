"""Totals of a batch: what is measured of which output, and what is left out."""

import numpy as np
import pytest

from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.metrics import drift_of
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import Totals, measure
from tfmp.converters.drift.views import Evidence

GENERATOR = np.random.default_rng(0)
KEYS = np.arange(60, dtype=np.uint64)
NUMBERS = GENERATOR.uniform(1, 2, (60, 4)).astype(np.float32)


@pytest.mark.parametrize("step", [1, 7, 20])
def test_any_split_has_the_same_totals(step):
    candidate = NUMBERS.astype(np.float16).astype(np.float32)
    merged = Totals()
    for start in range(0, 60, step):
        part = slice(start, start + step)
        merged = merge(measure(NUMBERS[part], candidate[part], None, KEYS[part]), merged)
    assert merged == measure(NUMBERS, candidate, None, KEYS)


@pytest.mark.parametrize(
    ("other", "whole"), [(NUMBERS, False), (np.rint(NUMBERS) + 1, True), (np.rint(NUMBERS), True)]
)
def test_whole_numbers_of_both_sides_are_compared_by_equality(other, whole):
    reference = np.rint(NUMBERS)
    totals = measure(reference, other, None, KEYS)
    assert (totals.whole, totals.equality.samples > 0) == (whole, whole)
    assert not measure(reference, other, Task(Kind.REGRESSION), KEYS).whole
    assert (drift_of("y", totals).decision == "equality") == whole


@pytest.mark.parametrize("kind", Kind)
def test_values_are_kept_of_outputs_that_a_view_reads(kind):
    kept = {"regression", "embedding", "reconstruction", "other", "angle", "quaternion"}
    kept |= {"binary", "multilabel"}
    totals = measure(np.abs(NUMBERS), np.abs(NUMBERS), Task(kind), KEYS)
    assert (len(totals.evidence) == 60) == (kind in kept)
    assert measure(NUMBERS, NUMBERS, Task(kind)).evidence == Evidence()


def test_integers_that_are_amounts_are_measured_as_numbers():
    grey = GENERATOR.integers(0, 256, (60, 4)).astype(np.uint8)
    totals = measure(grey, grey[::-1], Task(Kind.RECONSTRUCTION), KEYS)
    assert totals.dtype == "uint8"
    assert totals.max_abs > 100
    assert measure(grey, grey[::-1], None, KEYS).error_sq == ()


@pytest.mark.parametrize("mask", [-1e4, -1e9, -np.inf])
def test_masked_classes_are_no_part_of_a_distance(mask):
    task = Task(Kind.CLASSIFICATION)
    reference = GENERATOR.standard_normal((60, 40)).astype(np.float32)
    plain = drift_of("y", measure(reference[:, :8], reference[:, :8] / 2, task, KEYS))
    masked = np.where(np.arange(40) < 8, reference, np.float32(mask))
    found = measure(masked, np.where(np.arange(40) < 8, masked / 2, masked), task, KEYS)
    drift = drift_of("y", found)
    assert drift.rel_l2 == pytest.approx(plain.rel_l2)
    np.testing.assert_allclose(found.rows.values[:, :2], plain.totals.rows.values[:, :2])
    assert drift.flips == plain.flips
