"""needs: the memory of jobs together against the memory that is free."""

import pytest

from tfmp.colocation import needs, run
from tfmp.colocation.job import Job
from tfmp.colocation.needs import why_too_much
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine.measuring import PROCESS_MEMORY, Memory

GIB = 2**30


def alone(*gib, state=GIB):
    jobs = tuple(
        JobResult(
            *(name, "float32"), state_bytes=state, memory=Memory(int(size * GIB), PROCESS_MEMORY)
        )
        for name, size in zip("abc", gib, strict=False)
    )
    return ModeResult("sequential", jobs, 1.0, 1.0)


@pytest.fixture
def free(monkeypatch):
    """Sets the memory that is free, in GiB."""

    def there_are(gib):
        size = gib and gib * GIB
        monkeypatch.setattr(needs, "free_memory", lambda in_this_process: size)

    return there_are


def test_jobs_that_do_not_fit_are_told_with_numbers(free):
    free(8)
    assert why_too_much("threads", alone(4, 8)) == (
        "mode 'threads' needs about 12 GiB at the same time (a 4 GiB and b 8 GiB), but 8 GiB are "
        "free"
    )


@pytest.mark.parametrize(
    ("mode", "gib", "there"),
    [("threads", (4, 4), 8), ("threads", (4, 8), None), ("sequential", (400, 400), 8)],
)
def test_jobs_that_fit_or_of_which_nobody_knows(free, mode, gib, there):
    free(there)
    assert why_too_much(mode, alone(*gib)) == ""


def test_a_job_needs_its_state_at_least(free):
    # The rise of a process's memory can be too small: its allocator had memory left.
    free(3)
    assert "6 GiB at the same time" in why_too_much("threads", alone(0, 4, state=2 * GIB))


def test_a_named_mode_is_refused_before_it_starts(free, monkeypatch):
    free(8)
    monkeypatch.setattr(run, "measure", lambda *_: ([alone(4, 8)], []))
    jobs = [Job(dict, (), name="a"), Job(dict, (), name="b")]
    with pytest.raises(ValueError, match=r"^Mode 'threads' needs about 12 GiB .* Choose mode 'seq"):
        run.colocate(jobs, "threads")
