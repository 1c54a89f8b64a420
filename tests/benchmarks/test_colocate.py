"""benchmarks/colocate.py: ratios are of rounds, and the script runs."""

import json
import subprocess
import sys

import pytest
from repository import BENCHMARKS
from scripts import script

from tfmp.colocation.report import JobResult, ModeResult

SCRIPT = BENCHMARKS / "colocate.py"


@pytest.fixture(scope="module")
def benchmark():
    return script(SCRIPT)


def run(mode: str, *finished_s: float) -> ModeResult:
    found = (
        JobResult(str(n), "float32", 11, 10, 1.0, seconds, 1.0)
        for n, seconds in enumerate(finished_s)
    )
    return ModeResult(mode, tuple(found), setup_s=2.0, total_s=5.0)


def test_modes_are_compared_within_a_round(benchmark):
    # The machine slows down from round to round: totals would say that nothing differs.
    alone = [run("sequential", 1.0, 2.0), run("sequential", 2.0, 4.0), run("sequential", 4.0, 8.0)]
    threads = [run("threads", 1, 1), run("threads", 2, 2), run("threads", 1, 4)]
    way = benchmark.way_of("threads", threads, alone)
    assert way.speed == (2.0, 2.0, 2.0)
    assert way.steps_s == 2.0
    assert (way.setup_s, way.memory) == (2.0, 0)
    assert way.cells()[:4] == ("threads", "2 s", "2.00x", "2.00x to 2.00x")


def test_a_model_comes_in_three_precisions(benchmark):
    jobs = benchmark.jobs_of(5)
    assert [job.policy for job in jobs][:2] == ["float32", "float64"]
    assert {job.model for job in jobs} == {benchmark.tiny}


@pytest.mark.slow
def test_the_script_prints_a_row_for_every_mode(tmp_path):
    path = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--rounds", "1", "--steps", "2", "--json", path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    for mode in ("sequential", "interleaved", "threads", "processes"):
        assert any(line.startswith(mode + " ") for line in lines)
    found = json.loads(path.read_text())["groups"]["tiny"]
    assert len(found["ways"]) == 4
