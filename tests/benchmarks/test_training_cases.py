"""The page of training cases is what its script writes, and its results are today's."""

import json
import subprocess
import sys

import pytest
from case_pages import assert_all_in_order, rows_by_thread
from repository import BENCHMARKS
from training_case import Outcome
from training_threads import training_cases

TABLE = "training-cases"
CASES = {case.thread: case for case in training_cases()}


def test_the_table_has_all_cases_in_order_with_their_links_and_words():
    assert_all_in_order(TABLE, CASES.values())


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
    *_, of_tfmp = rows_by_thread(TABLE)[thread]
    assert of_tfmp.startswith(str(Outcome(today[thread]["tfmp"]["good"], "")).rstrip())
