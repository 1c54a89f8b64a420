"""benchmarks/gpu/stage.py: cases are kept one by one, and go on where they ended."""

import json
import sys
from pathlib import Path

import pytest
from repository import BENCHMARKS
from scripts import script

GPU = BENCHMARKS / "gpu"

MODULE = """
import os, time
from stage import Case

def cases(corpus):
    return {
        "plain": Case(),
        "other": Case({"TFMP_TEST_WORD": "set"}, fresh=True),
        "dies": Case(),
        "hangs": Case(limit_s=1.0),
        "raises": Case(),
        "last": Case(),
    }

def measure(name, corpus):
    print("chatter of a library")
    if name == "dies":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    if name == "raises":
        raise ValueError("no such thing\\nand more")
    return {"word": os.environ.get("TFMP_TEST_WORD", ""), "pid": os.getpid()}
"""


@pytest.fixture
def stage(monkeypatch, tmp_path):
    (tmp_path / "made_up_stage.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TFMP_GPU_SMALL", raising=False)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{GPU}")
    found = script(GPU / "stage.py")
    monkeypatch.setitem(sys.modules, "stage", found)
    monkeypatch.setitem(found.STAGES, "made-up", ("made_up_stage", 60.0, "made up"))
    return found


def test_a_case_costs_no_other(stage, tmp_path: Path):
    results = stage.Results("made-up", tmp_path / "made-up.json")
    assert stage.run("made-up", tmp_path, results, 60) == []
    cases = json.loads((tmp_path / "made-up.json").read_text())["cases"]
    assert cases["dies"]["error"] == "the process ended with status 3"
    assert cases["hangs"]["error"] == "no answer in 1 s"
    assert cases["raises"]["error"] == "ValueError: no such thing"
    assert (cases["plain"]["word"], cases["other"]["word"], cases["last"]["word"]) == (
        "",
        "set",
        "",
    )
    assert cases["plain"]["pid"] != cases["other"]["pid"]


def test_a_stage_goes_on_and_tries_failed_cases_again(stage, tmp_path: Path):
    results = stage.Results("made-up", tmp_path / "made-up.json")
    stage.run("made-up", tmp_path, results, 60, only="plain,raises")
    first = results.document["cases"]["plain"]["pid"]
    again = stage.Results("made-up", tmp_path / "elsewhere.json", tmp_path / "made-up.json")
    assert stage.run("made-up", tmp_path, again, 60, only="plain,raises,last") == []
    assert again.document["cases"]["plain"]["pid"] == first
    assert "word" in again.document["cases"]["last"]


def test_time_that_is_over_leaves_the_rest(stage, tmp_path: Path):
    results = stage.Results("made-up", tmp_path / "made-up.json")
    left = stage.run("made-up", tmp_path, results, 0)
    assert left == results.document["left"] == list(results.document["cases"]) + left


def test_results_of_another_machine_are_not_mixed_in(stage, tmp_path: Path):
    results = stage.Results("made-up", tmp_path / "made-up.json")
    results.add("plain", {"word": "kept"})
    document = json.loads((tmp_path / "made-up.json").read_text())
    document["machine"]["gpu"] = {"name": "another card"}
    (tmp_path / "made-up.json").write_text(json.dumps(document))
    assert stage.Results("made-up", tmp_path / "made-up.json").document["cases"] == {}
