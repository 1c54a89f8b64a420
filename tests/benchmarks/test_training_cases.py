"""The page of training cases is what its script writes, and its results are today's."""

import json
import subprocess
import sys
from types import ModuleType

import pytest
import repository
import scripts
from repository import BENCHMARKS
from training_case import Outcome
from training_threads import training_cases

TABLE = "training-cases"
CASES = {case.thread: case for case in training_cases()}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script(BENCHMARKS / "training_cases.py")


def rows_by_thread() -> dict[str, list[str]]:
    """The cells of each row of the table, by the thread that its second cell links to."""
    rows = [list(row.values()) for row in repository.table(TABLE)]
    return {cells[1].partition("](")[0].removeprefix("["): cells for cells in rows}


def test_the_table_has_all_cases_in_order_with_their_links_and_words():
    assert [row[:3] for row in rows_by_thread().values()] == [
        [str(number), f"[{case.thread}]({case.link})", case.title]
        for number, case in enumerate(CASES.values(), 1)
    ]


def test_a_page_of_made_up_results_has_the_form_of_the_page(script: ModuleType):
    threads = list(CASES)[:2]
    good, bad = Outcome(True, "loss 1 to 0"), Outcome(False, "ValueError: a|b")
    text = script.page([script.Row(threads[0], bad, good), script.Row(threads[1], good, good)])
    assert text.startswith("# Training cases\n\nWritten by `python benchmarks/training_cases.py` ")
    assert "| no: ValueError: a\\|b | yes: loss 1 to 0 |" in text
    assert "- Keras alone: yes for 1 of 2.\n- With tfmp: yes for 2 of 2.\n" in text


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
