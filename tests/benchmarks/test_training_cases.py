"""The page of training cases is what its script writes, and its results are today's."""

import json
import subprocess
import sys

import pytest
import repository
from repository import BENCHMARKS
from training_case import Outcome
from training_threads import training_cases

TABLE = "training-cases"
CASES = {case.thread: case for case in training_cases()}


def rows_by_thread() -> dict[str, list[str]]:
    """The cells of each row of the table, by the thread that its second cell links to."""
    rows = [list(row.values()) for row in repository.table(TABLE)]
    return {cells[1].partition("](")[0].removeprefix("["): cells for cells in rows}


def test_the_table_has_all_cases_in_order_with_their_links_and_words():
    assert [row[:3] for row in rows_by_thread().values()] == [
        [str(number), f"[{case.thread}]({case.link})", case.title]
        for number, case in enumerate(CASES.values(), 1)
    ]


@pytest.fixture(scope="module")
def today() -> dict[str, dict]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "training_cases.py"), "--json", "--tfmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["thread"]: line for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("thread", CASES)
def test_the_results_on_the_page_are_todays(thread: str, today: dict[str, dict]):
    *_, of_tfmp = rows_by_thread()[thread]
    assert of_tfmp.startswith(str(Outcome(today[thread]["tfmp"]["good"], "")).rstrip())
