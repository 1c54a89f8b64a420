"""A child and its parent: the messages between them end where one of the two does."""

import multiprocessing
import os

import pytest

from tfmp.colocation import processes


class Ended(BaseException):
    """In place of the end of this process."""


@pytest.mark.parametrize("use", [lambda pipe: pipe.send("step"), lambda pipe: pipe.recv()])
def test_a_child_that_nobody_listens_to_ends_without_a_traceback(monkeypatch, use):
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    with pytest.raises(Ended), processes.ending_with_parent():
        use(theirs)


@pytest.mark.parametrize(
    ("code", "limit", "end"),
    [
        (-6, 20 * 2**20, "by SIGABRT; it may use 20 MiB: pass a higher memory_limit"),
        (-6, None, "by SIGABRT"),
        (3, 20 * 2**20, "around its own work"),
    ],
)
def test_a_process_that_is_aborted_is_told_with_its_limit(code, limit, end):
    assert processes._why_it_ended(code, limit).endswith(end)
