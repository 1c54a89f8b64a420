"""Bench: variants of a step, warmed up alike, that take turns, with time and memory of each.

`profile_training` holds one for all its policies, `profile_sweep` one in each of its processes.
"""

import gc
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np

from tfmp.machine import Device, interleaved, is_out_of_memory
from tfmp.precision import Pattern
from tfmp.profiling.batches import of_size
from tfmp.profiling.copies import ModelOrBuilder, copy_of
from tfmp.profiling.runs import PredictionRun, Run, TrainingRun, Variant
from tfmp.profiling.steps import PREDICT, TRAIN, StepProfile
from tfmp.shared.backend import current_backend
from tfmp.shared.batches import TrainingBatch
from tfmp.shared.packages import installed_versions, processor_name
from tfmp.shared.wording import first_line

OUT_OF_MEMORY = "out of memory"

# Versions that a report names.
_PACKAGES = ("tfmp", "keras", "tensorflow", "jax", "torch", "numpy")

# Without `steps`, a round of the slowest variant takes about this long.
_ROUND_SECONDS = 0.25
_MOST_STEPS = 50


@dataclass(frozen=True)
class Job:
    """The work of a bench.

    Attributes:
        model: the model, or the function that builds it.
        batches: batches that come in turn; those of another size are made of their samples.
        batch_size: samples in a batch.
        variants: the policies that take turns.
        mode: "train" or "predict".
        rounds: number of timings of each variant; 0 measures memory only.
        steps: steps in a timing; None for as many as last a quarter of a second.
        keep_float32: as in `tfmp.plan`.
    """

    model: ModelOrBuilder
    batches: tuple[TrainingBatch, ...]
    batch_size: int
    variants: tuple[Variant, ...] = ()
    mode: str = TRAIN
    rounds: int = 0
    steps: int | None = None
    keep_float32: tuple[Pattern, ...] = ()

    def row(self, variant: Variant, error: str = "") -> StepProfile:
        """The row of a variant before it is measured."""
        return StepProfile(
            *(str(variant), variant.policy),
            batch_size=self.batch_size,
            error=error,
            mode=self.mode,
            xla=variant.xla,
        )


class Bench:
    """Runs that take turns, and their rows so far.

    Attributes:
        job: the work.
        runs: by variant, the runs.
        rows: by variant, what was measured, or the reason why the step did not run.
        steps: number of steps in each timing.
        name: of the model.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.runs: dict[str, Any] = {}
        self.rows: dict[str, StepProfile] = {}
        self.steps = 0
        self.name = getattr(job.model, "name", "")
        self._first: dict[str, float] = {}
        self._weights: list[np.ndarray] | None = None

    def _made(self, variant: Variant) -> Run:
        """A copy of the model under a variant; all copies have the weights of the first."""
        job = self.job
        batches = [
            batch if batch.samples == job.batch_size else of_size(batch, job.batch_size)
            for batch in job.batches
        ]
        copy = copy_of(job.model, batches[0], variant.policy)
        self.name = self.name or copy.name
        if self._weights is not None:
            copy.set_weights(self._weights)
        elif not isinstance(job.model, keras.Model):  # a function builds each with other weights
            self._weights = copy.get_weights()
        kind = PredictionRun if job.mode == PREDICT else TrainingRun
        return kind(copy, variant, batches, job.keep_float32)

    def add(self, variant: Variant) -> Run:
        """Compiles a variant's step and measures its memory; an error of it is the variant's row.

        Raises:
            TypeError, ValueError: the model cannot be copied, or run under this policy.
        """
        run, row = self._made(variant), self.job.row(variant)
        try:
            self._first[row.variant] = run.warm_up()
            row = replace(
                row,
                memory=run.memory(),
                parameters=run.model.count_params(),
                kept_float32=len(run.plan.kept_float32()),
            )
            self.runs[row.variant] = run
        except Exception as error:  # an error in one dtype need not come in the others
            row = replace(row, error=reason_of(error))
        self.rows[row.variant] = row
        return run

    def time(self) -> None:
        """Times the runs in turns, each in blocks of the same number of steps."""
        self.steps = self.job.steps or self._steps_in_a_round()
        blocks = {name: partial(run.run, self.steps) for name, run in self.runs.items()}
        for name, timing in interleaved(blocks, self.job.rounds).items():
            step = timing.per(self.steps)
            compile_s = max(0.0, self._first[name] - step.median)
            self.rows[name] = replace(
                self.rows[name], step=step, steps=self.steps, compile_s=compile_s
            )

    def _steps_in_a_round(self) -> int:
        # Every run takes one more step, so that all have still taken the same number.
        slowest = max((run.run(1) for run in self.runs.values()), default=_ROUND_SECONDS)
        return min(_MOST_STEPS, max(1, int(_ROUND_SECONDS / max(slowest, 1e-9))))


def measured(job: Job) -> tuple[tuple[StepProfile, ...], str]:
    """A row for each variant of a job, with the reason if it does not run; the model's name."""
    gc.collect()  # what an earlier one held
    bench = Bench(job)
    for variant in job.variants:
        bench.add(variant)
    if job.rounds:
        bench.time()
    return tuple(bench.rows.values()), bench.name


def reason_of(error: Exception) -> str:
    """An error of a framework in a few words."""
    return OUT_OF_MEMORY if is_out_of_memory(error) else first_line(error)[:200].rstrip(".")


def circumstances(name: str, job: Job, device: Device) -> dict[str, Any]:
    """The fields of a `StepReport`; without a name, the model's is that of its function."""
    return {
        "model": name or getattr(job.model, "__name__", "model"),
        "device": device,
        "backend": current_backend().name,
        "environment": {**installed_versions(_PACKAGES), "processor": processor_name()},
        "rounds": job.rounds,
    }
