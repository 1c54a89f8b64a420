"""Orders to end are obeyed once, in order, by a command that is watched; nothing of it is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import ctrl_c
import pytest

# A command that works in a draft, in a way that its first argument names, and tells of its end.
SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
from tfmp.shared import watched
from tfmp.shared.atomic_file import draft

def idle(): threading.Event().wait()

def swallow():
    try:
        print("in a library", flush=True)
        idle()
    except KeyboardInterrupt: raise ValueError("made of it by a library")

def endless():
    with watched.within(0.5, "reading x.h5"): idle()

def taken():
    with watched.heeding():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        print("in a library", flush=True)
        idle()

watched._PATIENCE_SECONDS = 1.0
end = watched.watch()
if end is None:
    try:
        with draft(Path.cwd()) as folder:
            (folder / "half").write_text("half")
            if sys.argv[1] == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(os.getpid(), flush=True)
            globals().get(sys.argv[1], idle)()
    except BaseException as error:
        print(type(error).__name__, watched.order_of(error), flush=True)
    os._exit(0)
how = "killed" if os.WIFSIGNALED(end.status) else "ended"
print(how, end.order, end.used, *end.overdue.split(), flush=True)
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Starts the command; gives its watching process and the number of its own."""
    with ExitStack() as begun:

        def begin(how: str, *before: str) -> tuple[subprocess.Popen[str], int]:
            words = [*before, sys.executable, "-c", SCRIPT, how]
            process = begun.enter_context(ctrl_c.leading(*words, cwd=tmp_path))
            assert process.stdout is not None
            return process, int(process.stdout.readline())

        yield begin


def said(process: subprocess.Popen[str]) -> list[str]:
    """All that was told; both streams end with the last process that could write to them."""
    out, err = process.communicate(timeout=60)
    assert err == ""
    return out.splitlines()


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("SIGTERM", "all"),
        ("SIGHUP", "the watching one"),
        ("SIGINT", "the command"),
        ("SIGINT", "all"),
    ],
)
def test_an_order_is_heard_once_and_cleaned_up_after(begin, tmp_path: Path, name: str, who: str):
    watching, command = begin("idle")
    number = getattr(signal, name)
    if who == "all":  # as Docker, systemd and terminals do
        os.killpg(watching.pid, number)
    else:
        os.kill(watching.pid if who == "the watching one" else command, number)
    assert said(watching) == [f"Ordered {number}", "ended 0 0"]
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_hears_nothing_is_ended_and_cleaned_up_after(begin, tmp_path: Path):
    """As in native code, which orders wait for."""
    watching, _ = begin("deaf")
    os.killpg(watching.pid, signal.SIGTERM)
    assert said(watching) == [f"killed {signal.SIGTERM.value} 0"]
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_is_killed_is_cleaned_up_after(begin, tmp_path: Path):
    watching, command = begin("idle")
    os.kill(command, signal.SIGKILL)
    assert said(watching) == ["killed 0 0"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["swallow", "taken"])
def test_an_order_is_one_whatever_a_library_makes_of_it(begin, how: str):
    watching, _ = begin(how)
    assert watching.stdout.readline() == "in a library\n"
    os.kill(watching.pid, signal.SIGTERM)
    error = {"swallow": "ValueError", "taken": "Ordered"}[how]
    assert said(watching) == [f"{error} {signal.SIGTERM.value}", "ended 0 0"]


def test_work_that_never_ends_is_ended(begin, tmp_path: Path):
    watching, _ = begin("endless")
    assert said(watching) == ["killed 0 0 reading x.h5"]
    assert list(tmp_path.iterdir()) == []


def test_a_command_may_outlive_its_terminal(begin):
    watching, command = begin("idle", "nohup")
    os.killpg(watching.pid, signal.SIGHUP)
    os.kill(command, signal.SIGTERM)
    assert said(watching) == [f"Ordered {signal.SIGTERM.value}", "ended 0 0"]
