"""The simulation of metrics of labels measures a run, and marks bounds that err too often."""

import numpy as np
import pytest
from repository import BENCHMARKS
from scripts import script

coverage = script(BENCHMARKS / "label_coverage.py")


def test_a_scene_runs_and_knows_its_truth() -> None:
    run = coverage.numbers(np.random.default_rng(0), 5, 0.3)
    scene = coverage.Scene("numbers", "mean absolute error", True, *run)
    found = coverage.outcome_of(scene, 100, runs=3)
    errors = [np.abs(output - scene.labels).mean() for output in run[1:]]
    assert found.truth == pytest.approx(errors[1] - errors[0], rel=1e-4)
    assert found.low + found.high <= 6
    assert not found.over


def test_bounds_that_err_too_often_are_marked() -> None:
    nothing = np.zeros(4)
    primary, other = (
        coverage.Scene("g", "accuracy", first, nothing, nothing, nothing) for first in (True, False)
    )
    over = coverage.Outcome(primary, 100, 0.01, 1000, low=90, high=0)
    unsaid = coverage.Outcome(other, 100, 0.01, 1000, low=90, high=0)
    assert over.over
    assert not unsaid.over
    assert over.row()[-2:] == ["9.0%", "0.0%"]
    assert unsaid.row()[-2:] == ["not stated", "0.0%"]
    text = coverage.page([over, unsaid], "command")
    assert (
        "1 of 2 rows keep to the stated 5%; these do not:\n\n- g: accuracy, 100 samples\n" in text
    )
