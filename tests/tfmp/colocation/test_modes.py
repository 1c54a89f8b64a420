"""Modes: Ctrl-C wherever it comes in "threads", and rounds of steps by the jobs' weights."""

import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tfmp.colocation import modes
from tfmp.colocation.job import Job
from tfmp.colocation.modes import _in_threads
from tfmp.colocation.run import colocate


@pytest.fixture(autouse=True)
def without_garbage_collection() -> Iterator[None]:
    """JAX, where it is imported, runs a function at every collection, and drops its errors."""
    gc.disable()
    yield
    gc.enable()


class Endless:
    """A runner, and its training: it takes steps until it is abandoned."""

    def __init__(self) -> None:
        self.training, self.running, self.abandoned = self, False, False

    def run(self) -> None:
        self.running = True
        while not self.abandoned:
            time.sleep(0.001)
        self.running = False

    def abandon(self) -> None:
        self.abandoned = True


class Interrupted:
    """Two runners driven with Ctrl-C at the nth function that Python enters.

    That is where Python looks for signals, functions of `threading` included.

    Attributes:
        place: where it came; None if fewer functions were entered before all steps went on.
        raised: what came of it; None if the driving thread never came back.
    """

    def __init__(self, n: int) -> None:
        self.place: str | None = None
        self.raised: BaseException | None = None
        self.runners = [Endless(), Endless()]
        self._left = n
        thread = threading.Thread(target=self._drive, daemon=True)
        thread.start()
        thread.join(20)

    def _trace(self, frame, event, argument):
        self._left -= 1
        going_on = all(runner.running for runner in self.runners)
        if self._left == 0 or going_on:
            sys.settrace(None)
            self.place = None if going_on and self._left else frame.f_code.co_qualname
            raise KeyboardInterrupt

    def _drive(self) -> None:
        sys.settrace(self._trace)
        try:
            _in_threads(self.runners)
        except BaseException as error:
            self.raised = error
        finally:
            sys.settrace(None)


def test_ctrl_c_stops_the_threads_and_comes_through():
    places = []
    while True:
        done = Interrupted(len(places) + 1)
        assert done.raised is not None, f"stuck after Ctrl-C in {done.place}"
        # Inside `Thread.start` it makes `threading` release a lock that it does not hold.
        assert KeyboardInterrupt in (type(done.raised), type(done.raised.__context__))
        assert not any(runner.running for runner in done.runners)
        if done.place is None:
            break
        places.append(done.place)
    assert len(places) > 5


class Counting:
    """A training that writes down its steps."""

    def __init__(self, name, weight, steps, told):
        self.job = Job(lambda: None, (), name=name, weight=weight, steps=steps)
        self.left, self.told = steps, told

    @property
    def done(self):
        return self.left == 0

    def step(self):
        self.left -= 1
        self.told.append(self.job.name)

    def wait(self):
        pass


def runs_of(told, *jobs):
    found = []
    for name, weight, steps in jobs:
        run = modes.JobRun(Job(lambda: None, ()))
        run.training = Counting(name, weight, steps, told)
        found.append(run)
    return found


def test_turns_by_weight():
    told = []
    modes._in_turns(runs_of(told, ("a", 2, 5), ("b", 1, 3), ("c", 1, 1)))
    assert "".join(told) == "abca" + "aba" + "ab"


@pytest.mark.parametrize("mode", ["sequential", "threads", "processes"])
def test_modes_without_rounds_refuse_different_weights(mode):
    jobs = [Job(dict, (), name="a"), Job(dict, (), name="b", weight=2)]
    with pytest.raises(ValueError, match=f"mode '{mode}' has no rounds: choose mode 'interleaved'"):
        colocate(jobs, mode)


def test_weights_choose_the_mode_with_rounds(monkeypatch):
    with pytest.raises(ValueError, match=r"Job\(weight=\.\.\.\) expects"):
        Job(dict, (), weight=0)
    monkeypatch.setattr("tfmp.colocation.run.measure", lambda *_: ([], []))
    jobs = [Job(dict, (), name="a"), Job(dict, (), name="b", weight=2)]
    report = colocate(jobs, train=False)
    assert (report.mode, report.reason) == (
        "interleaved",
        "it alone keeps to the weights of the jobs",
    )
