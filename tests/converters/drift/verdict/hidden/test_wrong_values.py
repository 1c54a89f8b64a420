"""Single values of samples that are a few numbers each."""

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import COLUMNS, DriftBudget
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.hidden.wrong_values import wrong_value_checks

# Temperatures beside pulses.
EXACT = np.random.default_rng(0).normal([37, 80], [0.7, 15], (1000, 2))


def checks(
    candidate: np.ndarray, reference: np.ndarray = EXACT, task: str = "regression"
) -> list[Check]:
    return wrong_value_checks(drift(reference, candidate, task), DriftBudget())


def exchanged(count: int) -> np.ndarray:
    """Rounded; the first samples have the temperature of another one."""
    candidate = EXACT.copy()
    candidate[:count, 0] = EXACT[::-1][:count, 0]
    return half(candidate)


def test_a_share_beyond_chance_fails_and_a_few_are_a_question():
    (found,) = checks(exchanged(40))
    assert found.verdict is Verdict.FAIL
    assert "column 0 of 2 is off by more than 0.3 of what it varies by (0.7" in found.text
    assert found.limit == 0.01 < found.lower < found.measured < 0.04
    assert found.p < 0.05
    (found,) = checks(exchanged(15))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.p is None
    assert checks(exchanged(5)) == []


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_outputs_of_one_number(shape):
    (found,) = checks(exchanged(40)[:, 0].reshape(shape), EXACT[:, 0].reshape(shape))
    assert "the value is off by more" in found.text


def test_counts_that_became_the_next_are_a_question():
    exact = np.random.default_rng(0).poisson(3, (1000, 2)).astype(float)
    more = np.arange(1000)[:, None] < [40, 0]
    assert checks(exact + more, exact)[0].verdict is Verdict.INCONCLUSIVE


def test_noise_that_all_samples_have_is_none():
    noise = 0.2 * np.random.default_rng(1).standard_normal(EXACT.shape) * EXACT.std(axis=0)
    assert checks(EXACT + noise) == []


def test_rounding_is_none_where_hardly_anything_varies():
    exact = np.random.default_rng(0).normal([1000, 80], [0.2, 15], (1000, 2))
    assert checks(half(exact), exact) == []


def test_columns_are_so_many_statements():
    exact = np.random.default_rng(0).standard_normal((1000, 16))
    candidate = exact.copy()
    candidate[:20, 3] += 2
    assert checks(candidate[:, :4], exact[:, :4])[0].verdict is Verdict.FAIL
    (found,) = checks(candidate, exact)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "column 3 of 16" in found.text


def test_of_more_columns_and_of_other_kinds_there_is_no_check():
    exact = np.random.default_rng(0).standard_normal((1000, 17))
    wrong = exact.copy()
    wrong[:100, 0] += 2
    assert checks(wrong, exact) == []
    assert checks(exchanged(100), task="multilabel") == []


def test_reports_of_before_have_no_such_errors():
    output = drift(EXACT, exchanged(40), "regression")
    rows = output.totals.rows
    object.__setattr__(rows._table, "values", rows._table.values[:, : COLUMNS.start])
    assert wrong_value_checks(output, DriftBudget()) == []


def test_an_output_without_values_has_none_that_could_be_wrong():
    nothing = np.zeros((5, 0))
    assert checks(nothing, nothing) == []
