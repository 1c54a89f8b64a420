"""Totals of a batch: what is measured of which output, and what is left out."""

import numpy as np
import pytest

from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import measure
from tfmp.converters.drift.views import Evidence

GENERATOR = np.random.default_rng(0)
KEYS = np.arange(60, dtype=np.uint64)
NUMBERS = GENERATOR.uniform(1, 2, (60, 4)).astype(np.float32)


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
