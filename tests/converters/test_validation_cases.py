"""Verdicts of constructed outputs, harmful and benign, as users get them by default."""

import pytest
from verdict_arrays import judged_on_arrays
from verdict_case import Case
from verdict_cases import CASES


def ids(case: Case) -> str:
    return case.name.replace(" ", "-")


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_verdict_is_right(case: Case):
    judged = judged_on_arrays(case)
    assert judged.verdict.value in case.accept, (case.why, judged.reasons)
