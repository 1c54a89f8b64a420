"""Numbers that went from one end of their range to the other are errors, unless they are angles."""

import re

import numpy as np
import pytest
from judged_distances import checks_of, directions, drift, half, judged

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.tasks import COMPILED, Task
from tfmp.converters.drift.verdict.check import Verdict

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("turn", [360.0, 2 * np.pi, 24.0])
def test_undeclared_angles_are_asked_for_and_the_answer_passes(turn):
    exact, received = directions(turn)
    assert (np.abs(received - exact) > turn / 2).sum() > 10
    (doubt,) = checks_of(drift(exact, received))
    assert (doubt.name, doubt.verdict) == ("angle", Verdict.INCONCLUSIVE)
    assert (
        f"{(np.abs(received - exact) > turn / 2).sum():,} numbers went from one end" in doubt.text
    )
    answer = re.search(r"--task y=(angle:period=[\d.]+)$", doubt.text)
    assert judged(drift(exact, received, answer[1])) is Verdict.PASS


def test_a_loss_says_nothing_of_angles_and_a_declaration_does():
    exact, received = directions(360.0)
    assert judged(drift(exact, received, "regression")) is Verdict.FAIL
    task = Task.of("regression", "y")
    found = drift(exact, received)
    compiled = Task(task.kind, why=f"{COMPILED} mse")
    object.__setattr__(found, "known", compiled)
    object.__setattr__(found, "task", compiled)
    assert [check.name for check in checks_of(found)] == ["angle"]


def test_other_errors_beside_it_are_none_of_angles():
    exact, received = directions(360.0)
    assert judged(drift(exact, received + 0.15 * exact.std())) is Verdict.FAIL
    away = received.copy()
    away[100:140] -= 120
    assert judged(drift(exact, away)) is Verdict.FAIL


def test_the_few_numbers_of_one_end_that_are_lost_are_no_angles():
    exact = np.concatenate([GENERATOR.uniform(0, 1, (800, 1)), np.zeros((800, 1))], axis=1)
    exact[:3, 1] = 1
    lost = half(exact)
    lost[:3, 1] = 0
    assert judged(drift(exact, lost)) is Verdict.FAIL


def test_numbers_that_are_right_are_not_asked_for():
    exact = GENERATOR.uniform(-180, 180, (800, 1))
    assert checks_of(drift(exact, half(exact))) == []


def test_with_limits_of_their_own():
    exact, received = directions(360.0)
    every = ("rel_l2", "sample_rel_l2", "between_samples", "wrong_samples")
    off = DriftBudget.parse([f"y.{name}=none" for name in every])
    assert checks_of(drift(exact, received), off) == []
