"""The simulation of verdicts sees statements that are wrong too often, and lets others be."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from repository import BENCHMARKS
from scripts import script

from tfmp.converters.drift.verdict.check import Verdict

coverage = script(BENCHMARKS / "verdict_coverage.py")
scenes = script(BENCHMARKS / "coverage_scenes.py")
labels = script(BENCHMARKS / "coverage_labels.py")
METRICS = {scene.group: scene for scene in coverage.label_scenes()}
ALL = [*coverage.verdict_scenes(), *METRICS.values()]


@pytest.mark.parametrize("scene", ALL, ids=lambda scene: f"{scene.group}, {scene.name}")
def test_every_scene_runs(scene: Any) -> None:
    found = coverage.outcome_of(scene, scene.sizes[0], runs=2)
    assert sum(found.wrong.values()) == 2


@pytest.mark.parametrize("changes", scenes.KINDS.values(), ids=scenes.KINDS)
def test_changes_have_the_rate_that_is_the_truth(changes: Any) -> None:
    drawn = changes(np.random.default_rng(0), 400_000, 0.01)
    assert drawn.mean() == pytest.approx(0.01, rel=0.05)


def test_a_bound_beside_the_truth_of_a_population_is_a_wrong_verdict(monkeypatch) -> None:
    drawn = labels.numbers(np.random.default_rng(0), 5, 0.3)
    scene = labels.scene("mean absolute error", "numbers", (Verdict.PASS,), lambda: drawn)
    errors = [np.abs(output - drawn[0]).mean() for output in drawn[1:]]
    kept, seen = labels.with_metrics, []

    def shifted(label: Any, by: float) -> Any:
        told = kept(label)
        found = [
            dataclasses.replace(one, lower=one.lower + by, upper=one.upper + by)
            for one in told.metrics
        ]
        seen.append(next(one.worse for one in found if one.name == "mean absolute error"))
        return dataclasses.replace(told, metrics=tuple(found))

    for by, verdict in ((-9, Verdict.PASS), (9, Verdict.FAIL), (0, Verdict.INCONCLUSIVE)):
        monkeypatch.setattr(labels, "with_metrics", lambda label, by=by: shifted(label, by))
        assert scene.run(np.random.default_rng(1), 100) is verdict
    assert seen[1] == pytest.approx(errors[1] - errors[0], rel=1e-4)  # of the whole population


def test_statements_that_are_wrong_too_often_are_marked() -> None:
    def says(verdict: Verdict, share: float) -> Any:
        return lambda rng, samples: verdict if rng.random() < share else Verdict.INCONCLUSIVE

    scene = scenes.Scene("g", "n", says(Verdict.PASS, 0.2))
    too_often = coverage.outcome_of(scene, 100, 400)
    assert too_often.over
    seldom = coverage.outcome_of(dataclasses.replace(scene, run=says(Verdict.PASS, 0.04)), 100, 400)
    assert not seldom.over
    unsaid = dataclasses.replace(scene, says=(Verdict.FAIL,))
    assert not coverage.outcome_of(unsaid, 100, 400).over
    text = coverage.page([too_often, seldom], "command")
    assert "1 of 2 rows keep to the stated 5%; these do not:\n\n- g: n, 100 samples\n" in text
    assert "not stated" in coverage.outcome_of(unsaid, 100, 10).row()
