"""A child and its parent: the messages between them end where one of the two does."""

import multiprocessing
import os

import pytest

from tfmp.colocation import processes


class Ended(BaseException):
    """In place of the end of this process."""


@pytest.fixture
def orphan(monkeypatch) -> processes._Parent:
    """The parent of a child, after its end."""

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    return processes._Parent(theirs)


def test_a_child_that_nobody_listens_to_ends_without_a_traceback(orphan):
    with pytest.raises(Ended):
        orphan.tell("step", (1, 2))
    with pytest.raises(Ended):
        orphan.wait_for_go()


def test_a_child_is_heard_and_started():
    ours, theirs = multiprocessing.Pipe()
    parent = processes._Parent(theirs)
    parent.tell("ready", None)
    assert ours.recv() == ("ready", None)
    ours.send("go")
    parent.wait_for_go()


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
