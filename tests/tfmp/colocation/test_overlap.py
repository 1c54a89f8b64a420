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
    ("mode", "together", "busy_cores", "text"),
    [
        (
            "threads",
            (2.4, 2.5),
            3.1,
            "the steps slow each other down: 0.80 seconds of work in a second. Alone the jobs keep "
            "3.1 and 3.1 of 4 cores busy: together they need more cores than there are",
        ),
        ("processes", (2.0, 2.0), 1.9, "the steps do not overlap. Alone the jobs keep 1.9 and 1.9"),
        ("processes", (1.0, 1.1), 1.0, "1.0 and 1.0 of 4 cores busy: cores are left"),
        ("threads", (2.0, 2.0), 1.0, "cores are left, but Python starts the steps of one thread"),
        ("threads", (2.0, 2.0), None, "How many cores a job keeps busy is not known"),
    ],
)
def test_on_cores(mode, together, busy_cores, text):
    assert text in said(mode, together, busy_cores=busy_cores)


def use(busy, memory_busy, samples=20):
    return GpuUse("Tesla T4", 2.0, samples, busy=busy, memory_busy=memory_busy)


@pytest.mark.parametrize(
    ("mode", "gpu", "mps", "text"),
    [
        ("interleaved", None, False, "All kernels of a process are on one stream"),
        (
            "threads",
            use(0.4, 0.1),
            False,
            "only the gaps between them can be filled; alone a kernel runs 40% and 40% of the time",
        ),
        ("processes", None, False, "in time slices: start it with nvidia-cuda-mps-control -d"),
        (
            "processes",
            use(0.9, 0.6),
            True,
            "its memory is the limit: alone the jobs keep it busy 120%",
        ),
        ("processes", use(0.7, 0.2), True, "its multiprocessors are shared"),
        ("streams", None, False, "Kernels run at the same time as far as the card has room"),
    ],
)
def test_on_a_card(mode, gpu, mps, text):
    assert text in said(mode, (2.0, 2.0), T4, mps, gpu=gpu)


def test_cards_of_their_own():
    text = said("processes", (2.0, 2.0), T4, True, gpu=use(0.9, 0.6, samples=1))
    assert text.endswith("as far as the card has room")
    jobs = (Job(dict, (), name="a", device="0"), Job(dict, (), name="b", device="MIG-1"))
    assert said("processes", (1.0, 1.0), T4, jobs=jobs).endswith(
        "Each job has a card or MIG instance of its own"
    )


def test_the_reason_is_told_for_the_run_and_for_each_measured_mode():
    alone = row("sequential", (1, 1))
    threads = replace(row("threads", (2, 2)), why="the steps do not overlap")
    measured = ColocateReport(CPU, "jax", "sequential", "it is enough", (alone, threads))
    assert "\nthreads: the steps do not overlap" in str(measured)
    trained = ColocateReport(CPU, "jax", "threads", "asked for by name", (alone,), threads)
    assert str(trained).count("\nthreads: the steps do not overlap") == 1
