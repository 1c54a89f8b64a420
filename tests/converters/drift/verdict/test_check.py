"""Limits, p-values and the correction for many statements."""

import pytest

from tfmp.converters.drift.verdict.check import Check, Verdict, corrected


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
                f", which chance may explain among {len(ps)} checks. Give more samples"
            )
