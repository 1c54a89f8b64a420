"""Samples that differed and have one answer now."""

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import MARKS, DriftBudget
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.hidden.merged_rows import merged_row_checks

GENERATOR = np.random.default_rng(0)
EXACT = GENERATOR.standard_normal((400, 24)) + 5


def checks(
    candidate: np.ndarray, reference: np.ndarray = EXACT, task: str = "other"
) -> list[Check]:
    return merged_row_checks(drift(reference, candidate, task), DriftBudget())


def merged(count: int, value: float | None = None) -> np.ndarray:
    """Rounded, but for the first samples, which have the answer of one or some number."""
    candidate = half(EXACT)
    candidate[:count] = EXACT[0] * 1.01 if value is None else value
    return candidate


def test_many_that_became_one_fail_and_a_few_are_a_question():
    (found,) = checks(merged(12))
    assert (found.verdict, found.measured) == (Verdict.FAIL, 12)
    assert "12 samples have one and the same answer in the candidate" in found.text
    (found,) = checks(merged(4))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert checks(merged(2)) == []


def test_groups_are_counted_together():
    candidate = merged(12)
    candidate[100:105] = EXACT[100] + 1
    (found,) = checks(candidate)
    assert found.measured == 17
    assert "5 others in 1 such groups" in found.text


def test_zeros_are_a_question_however_many():
    (found,) = checks(merged(50, 0.0))
    assert found.verdict is Verdict.INCONCLUSIVE


def test_zeros_of_either_sign_are_one_answer():
    candidate = merged(4, 0.0)
    candidate[:2] = -0.0
    assert checks(candidate)


@pytest.mark.parametrize("noise", [0, 1e-6])
def test_what_the_reference_does_not_tell_apart_is_none(noise):
    same = EXACT.copy()
    same[:50] = EXACT[0] + noise * GENERATOR.standard_normal((50, 24))
    candidate = half(same)
    candidate[:50] = EXACT[0] * 1.02
    assert checks(candidate, same) == []


def test_an_answer_that_the_reference_has_as_well_is_a_default():
    default = np.where(np.arange(400)[:, None] < 380, EXACT, 4.0)
    candidate = half(default)
    candidate[:12] = 4.0
    assert checks(candidate, default) == []
    assert checks(candidate, EXACT)


def test_rounding_outputs_of_a_few_values_and_decisions_merge_nothing():
    assert checks(half(EXACT)) == []
    levels = GENERATOR.standard_normal((5, 24))
    kind = GENERATOR.integers(0, 5, 400)
    assert checks(levels[(kind + (np.arange(400) < 40)) % 5], levels[kind]) == []
    assert checks(merged(50), task="classification") == []


def test_reports_of_before_have_no_marks():
    output = drift(EXACT, merged(50), "other")
    rows = output.totals.rows
    object.__setattr__(rows._table, "values", rows._table.values[:, : MARKS.start])
    assert merged_row_checks(output, DriftBudget()) == []
