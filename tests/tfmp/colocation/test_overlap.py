"""overlap: the reason why jobs do or do not overlap, from recorded runs."""

from dataclasses import replace

import pytest

from tfmp.colocation import overlap
from tfmp.colocation.job import Job
from tfmp.colocation.report import ColocateReport, JobResult, ModeResult
from tfmp.machine.devices import CPU, Device
from tfmp.machine.gpu_use import GpuUse

T4 = Device("gpu", "Tesla T4", (7, 5))
JOBS = (Job(dict, (), name="a"), Job(dict, (), name="b"))


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(overlap, "cores", lambda: 4)


def row(mode, seconds, busy_cores=None, gpu=None):
    """Ten steps of two jobs; `seconds` until each was done."""
    jobs = tuple(
        JobResult(n, "float32", 11, 10, 1.0, s, s, busy_cores=busy_cores, gpu=gpu)
        for n, s in zip("ab", seconds, strict=True)
    )
    return ModeResult(mode, jobs, 1.0, 9.0)


def said(mode, together, device=CPU, mps=False, jobs=JOBS, **alone):
    return overlap.explain(
        row(mode, together), row("sequential", (1, 1), **alone), device, mps, jobs
    )


def test_the_number():
    alone = row("sequential", (1, 1))
    assert overlap.overlap(row("threads", (1.0, 1.0)), alone) == pytest.approx(2)
    assert overlap.overlap(row("threads", (1.9, 2.0)), alone) == pytest.approx(1)
    assert overlap.overlap(row("sequential", (1, 2)), alone) is None
    one = ModeResult("threads", row("threads", (1, 1)).jobs[:1], 1.0, 1.0)
    assert overlap.explain(one, one, CPU, False, JOBS) == ""
    assert overlap.cores() >= 1


@pytest.mark.parametrize(
    ("together", "busy_cores", "text"),
    [
        (
            (2.4, 2.5),
            3.1,
            "the steps slow each other down: 0.80 seconds of work in a second. Alone the jobs keep "
            "3.1 and 3.1 of 4 cores busy",
        ),
        ((1.0, 1.1), 1.0, "the steps overlap: 1.82 seconds of work in a second. Alone the jobs"),
        ((2.0, 2.0), None, "the steps do not overlap"),
    ],
)
def test_on_cores(together, busy_cores, text):
    found = said("threads", together, busy_cores=busy_cores)
    assert found.startswith(text)
    assert ("Alone" in found) == (busy_cores is not None)


def test_on_a_card():
    use = GpuUse("Tesla T4", 2.0, 20, busy=0.4, memory_busy=0.1)
    found = said("threads", (2.0, 2.0), T4, gpu=use)
    assert found.endswith(
        "Alone a kernel of the jobs runs 40% and 40% of the time, and the card's memory is busy "
        "10% and 10% of it"
    )
    few = replace(use, samples=1)
    assert said("threads", (2.0, 2.0), T4, gpu=few) == "the steps do not overlap"
    advice = "start it with nvidia-cuda-mps-control -d"
    assert said("processes", (2.0, 2.0), T4).endswith(advice)
    assert advice not in said("processes", (2.0, 2.0), T4, mps=True)
    apart = (Job(dict, (), name="a", device="0"), Job(dict, (), name="b", device="MIG-1"))
    assert advice not in said("processes", (2.0, 2.0), T4, jobs=apart)


def test_the_reason_is_told_for_the_run_and_for_each_measured_mode():
    alone = row("sequential", (1, 1))
    threads = replace(row("threads", (2, 2)), why="the steps do not overlap")
    measured = ColocateReport(CPU, "jax", "sequential", "it is enough", (alone, threads))
    assert "\nthreads: the steps do not overlap" in str(measured)
    trained = ColocateReport(CPU, "jax", "threads", "asked for by name", (alone,), threads)
    assert str(trained).count("\nthreads: the steps do not overlap") == 1
