"""The page of field cases is what its script writes, and its results are today's."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import scripts
from case_pages import assert_all_in_order, rows_by_thread
from field_case import FieldCase
from field_threads import field_cases
from repository import BENCHMARKS

TABLE = "field-cases"
CASES = {case.name: case for case in field_cases()}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script(BENCHMARKS / "field_cases.py")


def test_the_table_has_all_cases_in_order_with_their_links_and_words():
    assert_all_in_order(TABLE, CASES.values())


def test_every_tool_that_cannot_be_run_is_said_and_not_made_up():
    for case in CASES.values():
        if case.tool.startswith("not run here: "):
            assert rows_by_thread(TABLE)[case.thread][3].startswith(case.tool)


def outcomes(cell: str) -> tuple[str, ...]:
    """The verdicts in a cell: of FP16, and of the option behind it."""
    return tuple(re.findall(r"\b(PASS|FAIL|INCONCLUSIVE|no)\b[,:;]? ?", cell))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_page_says_of_tfmp_is_so(case: FieldCase, script: ModuleType, tmp_path: Path):
    plain, mended = script.run_tfmp(case, tmp_path)
    found = [str(one.verdict or "no") for one in (plain, mended) if one is not None]
    assert outcomes(rows_by_thread(TABLE)[case.thread][4]) == tuple(found)
    assert plain.fault == plain.check == ""
