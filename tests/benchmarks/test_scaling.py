"""benchmarks/scaling.py: its arithmetic, and that the script runs."""

import json
import subprocess
import sys

import pytest
from repository import BENCHMARKS
from scripts import script

SCRIPT = BENCHMARKS / "scaling.py"


@pytest.fixture(scope="module")
def benchmark():
    return script(SCRIPT)


@pytest.fixture
def row(benchmark):
    def made(scaling, replicas, batch, step_s, **more):
        return benchmark.Row("float32", scaling, replicas, batch, step_s, **more)

    return made


def test_efficiency_and_communication(row):
    one = row("weak", 1, 64, 0.1)
    assert row("weak", 4, 256, 0.1).efficiency(one) == pytest.approx(1.0)
    assert row("weak", 4, 256, 0.2).efficiency(one) == pytest.approx(0.5)
    one = row("strong", 1, 64, 0.1)
    assert row("strong", 4, 64, 0.025).efficiency(one) == pytest.approx(1.0)
    assert row("strong", 4, 64, 0.1).efficiency(one) == pytest.approx(0.25)
    assert row("weak", 2, 64, 0.1, reduce_s=0.025).communication == pytest.approx(0.25)
    assert row("weak", 1, 64, 0.1).communication is None


def test_jobs_side_by_side_are_as_slow_as_the_slowest(benchmark, row):
    found = benchmark.together(
        [
            row("processes", 1, 64, 0.1, skipped=1, steps=10),
            row("processes", 1, 64, 0.2, skipped=2, steps=10),
        ]
    )
    assert (found.replicas, found.batch, found.step_s) == (2, 128, 0.2)
    assert (found.skipped, found.steps) == (3, 20)


def test_each_row_is_compared_with_one_replica_of_its_kind(benchmark, row):
    rows = [
        row("weak", 1, 64, 0.1),
        row("weak", 2, 128, 0.2, reduce_s=0.02, skipped=1, steps=40),
        row("strong", 1, 64, 0.1),
        row("strong", 2, 64, 0.05),
    ]
    heading, *body = benchmark.cells(rows)
    at = heading.index("efficiency")
    assert [cells[at] for cells in body] == ["100%", "50%", "100%", "100%"]
    assert body[1][at + 1 :] == ("10%", "1 of 40")


@pytest.mark.parametrize("rehearsal", [True, False])
def test_the_page_says_what_it_ran_on(benchmark, row, rehearsal):
    page = benchmark.markdown([row("weak", 1, 64, 0.1)], "CPU with 2 cores.", rehearsal)
    assert page.startswith("CPU with 2 cores.\n")
    assert ("A rehearsal: virtual devices share" in page) is rehearsal
    assert "| float32 | weak | 1 | 64 | 100.00 ms | 640 | 100% | - | 0 of 0 |" in page


def run(monkeypatch, backend: str, *more: object) -> str:
    monkeypatch.setenv("KERAS_BACKEND", backend)
    sizes = "--policies mixed_float16 --steps 2 --epochs 1 --batch 8".split()
    done = subprocess.run([sys.executable, SCRIPT, *sizes, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_script_runs_on_two_replicas(tmp_path, monkeypatch):
    found = tmp_path / "found.json"
    printed = run(monkeypatch, "tensorflow", "--replicas", "2", "--json", found)
    rows = json.loads(found.read_text())
    assert [(row["scaling"], row["replicas"]) for row in rows] == [
        *(("weak", 1), ("weak", 2), ("strong", 1), ("strong", 2)),
        *(("processes", 1), ("processes", 2)),
    ]
    assert [row["batch"] for row in rows] == [8, 16, 8, 8, 8, 16]
    assert all(row["step_s"] > 0 and row["steps"] >= 4 for row in rows)
    assert all((row["reduce_s"] > 0) == (i in (1, 3)) for i, row in enumerate(rows))
    assert "; tensorflow " in printed


@pytest.mark.slow
def test_a_worker_runs_on_jax(monkeypatch):
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    monkeypatch.setenv("XLA_FLAGS", flags)  # compiling takes most of the time
    rows = list(map(json.loads, run(monkeypatch, "jax", "--worker", "2").splitlines()))
    assert [(row["scaling"], row["replicas"]) for row in rows] == [("weak", 2), ("strong", 2)]
    assert all(row["step_s"] > 0 and row["reduce_s"] > 0 for row in rows)
