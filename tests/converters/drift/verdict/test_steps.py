"""Whole numbers that become the next ones: each step is a decision."""

import numpy as np
import pytest
from judged_distances import drift, judged

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.drift.verdict.steps import step_check

GENERATOR = np.random.default_rng(0)
COUNTS = np.round(3 * GENERATOR.standard_normal((2000, 4)))
FEW, MANY = (GENERATOR.uniform(size=COUNTS.shape) < share for share in (0.004, 0.03))


@pytest.mark.parametrize("task", [None, "regression"])
def test_few_steps_pass_and_many_or_larger_ones_fail(task):
    assert judged(COUNTS, COUNTS + FEW, task)[0] is Verdict.PASS
    assert judged(COUNTS, COUNTS - 1.0 * FEW, task)[0] is Verdict.PASS
    assert judged(COUNTS, COUNTS + MANY, task)[0] is Verdict.FAIL
    assert judged(COUNTS, COUNTS + 5 * FEW, task)[0] is Verdict.FAIL


def test_a_rate_within_the_budget_with_its_bound_beyond_it_stays_open():
    steps = np.zeros((400, 1))
    steps[:4] = 1
    verdict, text = judged(COUNTS[:400, :1], COUNTS[:400, :1] + steps)
    assert verdict is Verdict.INCONCLUSIVE
    assert "all of its values are whole numbers, and 4 of 400 are the next ones" in text


def test_a_rare_column_that_is_lost_fails():
    flags = (np.arange(2000) % 200 == 7).astype(float)[:, None]
    both = (np.concatenate([COUNTS, rare], axis=1) for rare in (flags, 0 * flags))
    verdict, text = judged(*both)
    assert verdict is Verdict.FAIL
    assert "column 4 of 5 is off by 1 of its own size" in text


def test_other_numbers_have_no_steps():
    assert step_check(drift(COUNTS, COUNTS), DriftBudget()) is None
    assert step_check(drift(COUNTS + 0.5, COUNTS + 0.5 + FEW), DriftBudget()) is None
    assert step_check(drift(COUNTS, COUNTS + 0.5 * FEW), DriftBudget()) is None
    assert step_check(drift(COUNTS, COUNTS + FEW), DriftBudget(flip_rate=None)) is None
