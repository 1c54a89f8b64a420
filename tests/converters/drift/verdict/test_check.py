"""Limits, p-values and the correction for many statements."""

import pytest
from scipy.stats import binom

from tfmp.converters.drift.statistics import binomial_bounds
from tfmp.converters.drift.verdict.check import Check, Verdict, corrected, overall, p_over


@pytest.mark.parametrize("events", [0, 2, 5, 10])
def test_p_is_the_chance_of_so_many_events_at_the_limit(events):
    found = p_over(lambda confidence: binomial_bounds(events, 100, confidence), 0.01)
    chance = binom.sf(events - 1, 100, 0.01)
    assert found == pytest.approx(chance if chance < 0.5 else 1.0, rel=0.01)


def stated(p: float) -> Check:
    verdict = Verdict.FAIL if p <= 0.05 else Verdict.PASS
    return Check("flip_rate", "y", 0.1, 0.05, 0.2, 0.01, verdict, "it fails", p)


@pytest.mark.parametrize(
    ("ps", "failing"),
    [
        ([0.04], 1),
        ([0.04, 0.9], 0),  # one of two: 0.04 is over 0.05 / 2
        ([0.02, 0.9], 1),
        ([0.02, 0.04], 2),  # after the first, the second is the only one
        ([0.03, 0.03, 0.03], 0),
        ([0.0001, 0.03, 0.03], 1),
    ],
)
def test_many_statements_fail_by_holm_s_rule(ps, failing):
    found = corrected([stated(p) for p in ps], 0.95)
    assert sum(check.verdict is Verdict.FAIL for check in found) == failing
    for check, p in zip(found, ps, strict=True):
        if check.verdict is Verdict.INCONCLUSIVE:
            assert p <= 0.05
            assert check.text.endswith(
                f"It is one of {len(ps)} such checks, of which one may fail by chance"
            )


def test_faults_need_no_statistics():
    fault = Check("nonfinite", "y", 1.0, None, None, None, Verdict.FAIL, "NaN")
    assert corrected([fault, stated(0.9)], 0.95)[0] == fault


def test_one_candidate_that_fails_is_enough():
    assert overall([Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]) is Verdict.FAIL
    assert overall([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert overall([Verdict.PASS, Verdict.PASS]) is Verdict.PASS
    assert overall([]) is Verdict.INCONCLUSIVE
