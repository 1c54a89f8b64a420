"""Rounds of steps by the jobs' weights, with trainings that only count."""

import pytest

from tfmp.colocation import modes
from tfmp.colocation.job import Job
from tfmp.colocation.run import colocate


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
