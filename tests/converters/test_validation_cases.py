"""Verdicts of constructed outputs, harmful and benign, as users get them by default.

The cases were written by somebody who did not know the rules of the verdict.
"""

import pytest
import verdict_cases_decisions
import verdict_cases_detection
import verdict_cases_numbers
from verdict_arrays import judged_on_arrays
from verdict_case import Case

KINDS = (verdict_cases_decisions, verdict_cases_detection, verdict_cases_numbers)


def ids(case: Case) -> str:
    return case.name.replace(" ", "-")


@pytest.mark.parametrize("case", [case for kind in KINDS for case in kind.CASES], ids=ids)
def test_the_verdict_is_right(case: Case):
    judged = judged_on_arrays(case)
    assert judged.verdict.value in case.accept, (case.why, judged.reasons)
