"""Verdicts of constructed outputs, harmful and benign, as users get them by default."""

from pathlib import Path

import pytest
from quick import quick
from verdict_case import Case
from verdict_cases import CASES
from verdict_cases_columns import CASES as COLUMNS
from verdict_cases_contrasts import CASES as CONTRASTS
from verdict_cases_deployed import CASES as DEPLOYED
from verdict_cases_heads import CASES as HEADS
from verdict_cases_held_out import CASES as HELD_OUT
from verdict_cases_kinds import CASES as KINDS
from verdict_cases_masks import CASES as MASKS
from verdict_cases_reported import CASES as REPORTED
from verdict_cases_scales import CASES as SCALES
from verdict_cases_series import CASES as SERIES
from verdict_cases_singles import CASES as SINGLES
from verdict_cases_small import CASES as SMALL
from verdict_cases_structure import CASES as STRUCTURE
from verdict_cases_values import CASES as VALUES
from verdict_cases_within import CASES as WITHIN
from verdict_models import report_of


def test_the_table_is_large_and_has_both_sides():
    assert len({case.name for case in CASES}) == len(CASES) >= 140
    assert min(sum(case.harm for case in CASES), sum(not case.harm for case in CASES)) > 50


# Each rule has several cases: half of them are enough for the quick tests.
@pytest.mark.parametrize(
    "case",
    quick([*CASES, *MASKS], *CASES[::2], *MASKS[::2]),
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_the_verdict_is_right(case: Case, tmp_path: Path):
    report = report_of(case, tmp_path)
    assert report.verdict.value in case.accept, (case.why, report.candidates[0].reasons)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *(*HELD_OUT, *SERIES, *HEADS, *STRUCTURE, *DEPLOYED),
        *(*KINDS, *VALUES, *REPORTED, *SCALES),
        *(*COLUMNS, *CONTRASTS, *SINGLES, *SMALL, *WITHIN),
    ],
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_cases_that_no_rule_was_made_for(case: Case, tmp_path: Path):
    test_the_verdict_is_right(case, tmp_path)
