"""Rounds of steps by the jobs' weights, with trainings that only count."""

import pytest

from tfmp.colocation import modes
from tfmp.colocation.choice import recommend
from tfmp.colocation.job import Job
from tfmp.colocation.report import JobResult, ModeResult
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
        self.finish_step({})
        self.told.append(self.job.name)

    def begin_step(self):
        return self.job.name

    def finish_step(self, logs):
        self.left -= 1

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
    modes._InTurns().drive(runs_of(told, ("a", 2, 5), ("b", 1, 3), ("c", 1, 1)))
    assert "".join(told) == "abca" + "aba" + "ab"


def test_fused_steps_by_weight_are_compiled_once_for_each_group(monkeypatch):
    made, told = [], []

    class Fused:
        def __init__(self, trainings):
            made.append("".join(training.job.name for training in trainings))

        def __call__(self, batches):
            told.append("".join(batches))
            return [{} for _ in batches]

    monkeypatch.setattr(modes, "FusedStep", Fused)
    way = modes._Fused()
    way.drive(runs_of([], ("a", 3, 6), ("b", 1, 3)))
    assert told == ["ab", "a", "a", "ab", "a", "a", "b"]
    assert made == ["ab", "a", "b"]


@pytest.mark.parametrize("mode", ["sequential", "threads", "processes"])
def test_modes_without_rounds_refuse_different_weights(mode):
    jobs = [Job(dict, (), name="a"), Job(dict, (), name="b", weight=2)]
    with pytest.raises(ValueError, match=f"mode '{mode}' has no rounds: choose mode 'interleaved'"):
        colocate(jobs, mode)


def test_equal_weights_are_no_weights():
    with pytest.raises(ValueError, match=r"Job\(weight=\.\.\.\) expects"):
        Job(dict, (), weight=0)
    rows = [mode_row("sequential", 1.0), mode_row("interleaved", 2.0), mode_row("fused", 3.0)]
    assert recommend(rows)[0] == "sequential"
    mode, reason = recommend(rows, in_rounds=True)
    assert (mode, reason) == (
        "interleaved",
        "the fastest mode that respects the weights of the jobs",
    )


def mode_row(mode, predicted_s):
    jobs = tuple(JobResult(n, "float32", 2, 1, 1.0, 1.0, 1.0) for n in "ab")
    return ModeResult(mode, jobs, 1.0, 1.0, predicted_s=predicted_s)
