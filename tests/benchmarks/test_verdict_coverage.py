"""The simulation of verdicts sees statements that are wrong too often, and lets others be."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from repository import BENCHMARKS
from scripts import script

from tfmp.converters.drift.verdict.check import Check, Verdict

coverage = script(BENCHMARKS / "verdict_coverage.py")
SCENES = {(scene.group, scene.name): scene for scene in coverage.scenes()}


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: f"{scene.group}, {scene.name}")
def test_every_scene_runs(scene: Any) -> None:
    found = coverage.outcome_of(scene, scene.sizes[0], runs=2)
    assert sum(found.wrong.values()) == 2


@pytest.mark.parametrize("changes", coverage.KINDS.values(), ids=coverage.KINDS)
def test_changes_have_the_rate_that_is_the_truth(changes: Any) -> None:
    drawn = changes(np.random.default_rng(0), 400_000, 0.01)
    assert drawn.mean() == pytest.approx(0.01, rel=0.05)


def test_statements_that_are_wrong_too_often_are_marked() -> None:
    def says(verdict: Verdict, share: float) -> Any:
        def run(rng: np.random.Generator, samples: int) -> list[Check]:
            said = verdict if rng.random() < share else Verdict.INCONCLUSIVE
            return [Check("c", "", None, None, None, None, said, "")]

        return run

    scene = coverage.Scene("g", "n", says(Verdict.PASS, 0.2))
    too_often = coverage.outcome_of(scene, 100, 400)
    assert too_often.over
    seldom = coverage.outcome_of(dataclasses.replace(scene, run=says(Verdict.PASS, 0.04)), 100, 400)
    assert not seldom.over
    unsaid = dataclasses.replace(scene, says=(Verdict.FAIL,))
    assert not coverage.outcome_of(unsaid, 100, 400).over
    text = coverage.page([too_often, seldom], "command")
    assert "1 of 2 rows keep to the stated 5%; these do not:\n\n- g: n, 100 samples\n" in text
    assert "not stated" in coverage.outcome_of(unsaid, 100, 10).row()
