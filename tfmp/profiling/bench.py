"""Bench: runs that are warmed up alike and take turns, with the memory and the time of a step."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from tfmp.machine import compile_seconds, interleaved, is_out_of_memory
from tfmp.profiling.runs import Run
from tfmp.profiling.steps import StepProfile
from tfmp.shared.wording import first_line

# Versions that a report names.
PACKAGES = ("tfmp", "keras", "tensorflow", "jax", "numpy")

OUT_OF_MEMORY = "out of memory"

# Without `steps`, a round of the slowest variant takes about this long.
_ROUND_SECONDS = 0.25
_MOST_STEPS = 50


AnyRun = TypeVar("AnyRun", bound=Run)


class Bench(Generic[AnyRun]):
    """Runs that take turns, and their rows so far.

    Attributes:
        runs: by variant, the runs.
        rows: by variant, what was measured, or the reason why the step did not run.
        steps: number of steps in each timing.
    """

    def __init__(self) -> None:
        self.runs: dict[str, AnyRun] = {}
        self.rows: dict[str, StepProfile] = {}
        self.steps = 0
        self._first: dict[str, float] = {}

    def add(self, row: StepProfile, make: Callable[[], AnyRun]) -> None:
        """Makes a run, compiles its step and measures its memory."""
        name = row.variant
        try:
            run = make()
            self._first[name] = run.warm_up()
            row = replace(
                row,
                memory=run.memory(),
                parameters=run.model.count_params(),
                kept_float32=len(run.plan.kept_float32()),
            )
            self.runs[name] = run
        except Exception as error:  # an error in one dtype need not come in the others
            row = replace(row, error=reason_of(error))
        self.rows[name] = row

    def time(self, rounds: int, steps: int | None) -> None:
        """Times the runs in turns, each in blocks of the same number of steps."""
        self.steps = steps or self._steps_in_a_round()
        blocks = {name: partial(run.run, self.steps) for name, run in self.runs.items()}
        for name, timing in interleaved(blocks, rounds).items():
            step = timing.per(self.steps)
            compile_s = compile_seconds(self._first[name], step)
            self.rows[name] = replace(
                self.rows[name], step=step, steps=self.steps, compile_s=compile_s
            )

    def _steps_in_a_round(self) -> int:
        # Every run takes one more step, so that all have still taken the same number.
        slowest = max((run.run(1) for run in self.runs.values()), default=_ROUND_SECONDS)
        return min(_MOST_STEPS, max(1, int(_ROUND_SECONDS / max(slowest, 1e-9))))


def reason_of(error: Exception) -> str:
    """An error of a framework in a few words."""
    return OUT_OF_MEMORY if is_out_of_memory(error) else first_line(error)[:200]
