"""needs: the memory of jobs together against the memory that is free."""

import pytest

from tfmp.colocation import needs, run
from tfmp.colocation.job import Job
from tfmp.colocation.needs import needed_bytes, why_too_much
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


def test_what_modes_need():
    assert needed_bytes("threads", alone(4, 8)) == 12 * GIB
    # The rise of a process's memory can be too small: its allocator had memory left.
    assert needed_bytes("threads", alone(0, 4, state=2 * GIB)) == 6 * GIB
    assert needed_bytes("sequential", alone(400, 400)) is None


def test_jobs_that_do_not_fit_are_told_with_numbers(free):
    free(8)
    assert why_too_much("threads", alone(4, 8)) == (
        "mode 'threads' needs about 12 GiB at the same time (a 4 GiB and b 8 GiB), but 8 GiB are "
        "free"
    )


@pytest.mark.parametrize(("gib", "there"), [((4, 4), 8), ((4, 4), 100), ((4, 8), None)])
def test_jobs_that_fit_or_of_which_nobody_knows(free, gib, there):
    free(there)
    assert why_too_much("threads", alone(*gib)) == ""


def test_a_named_mode_is_refused_before_it_starts(free, monkeypatch):
    free(8)
    monkeypatch.setattr(run, "measure", lambda *_: ([alone(4, 8)], []))
    jobs = [Job(dict, (), name="a"), Job(dict, (), name="b")]
    with pytest.raises(ValueError, match=r"^Mode 'threads' needs about 12 GiB .* Choose mode 'seq"):
        run.colocate(jobs, "threads")
