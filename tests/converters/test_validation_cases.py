"""Verdicts of constructed outputs, harmful and benign, as users get them by default."""

from pathlib import Path

import pytest
from quick import quick
from verdict_case import Case
from verdict_cases import CASES
from verdict_cases_deployed import CASES as DEPLOYED
from verdict_cases_heads import CASES as HEADS
from verdict_cases_held_out import CASES as HELD_OUT
from verdict_cases_kinds import CASES as KINDS
from verdict_cases_series import CASES as SERIES
from verdict_cases_structure import CASES as STRUCTURE
from verdict_models import report_of


def test_the_table_is_large_and_has_both_sides():
    assert len({case.name for case in CASES}) == len(CASES) >= 140
    assert min(sum(case.harm for case in CASES), sum(not case.harm for case in CASES)) > 50


# A fifth of the time of all: lists of detections, which others show as well, and long texts.
LONG = {
    "lists of detections without a batch axis",
    "lists of detections in which ties change places",
    "lists of detections of different length at the threshold",
    "lists of detections without declared columns",
    "a causal language model that changes 3 % of its words, spread over all texts",
    "x and y of boxes swapped",
}
assert {case.name for case in CASES} >= LONG


@pytest.mark.parametrize(
    "case",
    quick(CASES, *(case for case in CASES if case.name not in LONG)),
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_the_verdict_is_right(case: Case, tmp_path: Path):
    report = report_of(case, tmp_path)
    assert report.verdict.value in case.accept, (case.why, report.candidates[0].reasons)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [*HELD_OUT, *SERIES, *HEADS, *STRUCTURE, *DEPLOYED, *KINDS],
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_cases_that_no_rule_was_made_for(case: Case, tmp_path: Path):
    test_the_verdict_is_right(case, tmp_path)
