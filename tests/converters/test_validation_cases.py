"""Verdicts of constructed outputs, harmful and benign, as users get them by default."""

import pytest
from verdict_arrays import judged_on_arrays
from verdict_case import Case
from verdict_cases import CASES

BY_NAME = {case.name: case for case in CASES}


def ids(case: Case) -> str:
    return case.name.replace(" ", "-")


def test_the_table_is_large_and_has_both_sides():
    assert len(BY_NAME) == len(CASES) >= 100
    assert min(sum(case.harm for case in CASES), sum(not case.harm for case in CASES)) > 30


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_verdict_is_right(case: Case):
    judged = judged_on_arrays(case)
    assert judged.verdict.value in case.accept, (case.why, judged.reasons)
