"""Distances of an output and of its samples: small ones are judged by their own size."""

from dataclasses import replace

import numpy as np
import pytest
from judged_distances import drift

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.metrics import OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.closeness import closeness_checks

GENERATOR = np.random.default_rng(0)


def check(name: str, found: OutputDrift, budget: DriftBudget | None = None) -> Check | None:
    checks = closeness_checks(found, budget or DriftBudget())
    return next((each for each in checks if each.name == name), None)


def test_flips_are_judged_as_flips():
    codes = 1.5 * np.eye(8, dtype=np.float32)[GENERATOR.integers(0, 8, 1000)]
    candidate = codes.copy()
    candidate[:2] = np.roll(candidate[:2], 1, axis=1)
    found = check("rel_l2", drift(codes, candidate))
    assert found.measured > 0.01
    assert found.verdict is Verdict.PASS
    assert "and 0 without the few samples over sample_rel_l2" in found.text
    assert check("rel_l2", drift(codes, codes * 1.1)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("measured", "limit", "told"),
    [
        (0.010000001, 0.01, "0.010000001 is over the budget of 0.01"),
        (0.0100049, 0.01, "0.010005 is over the budget of 0.01"),
        (0.00999999, 0.01, "0.00999999 is within the budget of 0.01"),
        (0.012346, 0.012345, "0.01235 is over the budget of 0.012345"),
        (0.012346, 0.0123465, "0.0123 is within the budget of 0.0123465"),
        (0.05, 0.01, "0.05 is over the budget of 0.01"),
    ],
)
def test_a_number_shows_on_which_side_of_the_budget_it_is(measured, limit, told):
    values = np.ones((60, 1))
    output = replace(drift(values, values * 1.1), rel_l2=measured)
    found = closeness_checks(output, DriftBudget(rel_l2=limit, sample_rel_l2=None))
    assert f"rel_l2 {told}" in found[0].text


def test_few_numbers_near_zero_are_no_lost_samples():
    scores = np.abs(GENERATOR.standard_normal((300, 1))) + 0.02
    scores[:3] = 0.004
    noisy = scores + 1e-3 * GENERATOR.standard_normal(scores.shape)
    noisy[:3] = 0.0028
    found = check("sample_share", drift(scores, noisy))
    assert found.verdict is Verdict.PASS
    assert "3 of them are noise beside larger samples" in found.text
    noisy[:20] = 3 * scores[:20] + 1
    assert check("sample_share", drift(scores, noisy)).verdict is Verdict.FAIL
