"""ColocateReport: the jobs in each mode that was tried, and the recommended mode."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tfmp.machine import Device, Memory, bytes_text, seconds_text
from tfmp.shared.html_page import NONE
from tfmp.shared.reporting import Report, Section, Table, cell, table_of

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class JobResult:
    """The result of one job.

    Attributes:
        name: name of the job.
        policy: the policy that it trained under.
        steps: number of training steps.
        timed_steps: number of those steps that were not part of the set-up.
        setup_s: seconds to build the model and take the first step, which compiles.
        finished_s: seconds from the moment when all jobs were set up until this job was done. The
            waiting for others is included, but not their set-up.
        running_s: seconds from its own first timed step until it was done.
        samples_per_second: throughput while it ran.
        slowdown: `finished_s` divided by the seconds that the same steps take alone; None if they
            are not known.
        loss: loss of its last epoch.
        skipped_steps: steps that the loss-scale optimizer did not apply.
        history: by metric, one value for each epoch, as in Keras's `History`.
        error: why the job ended early; empty if it did not.
        out_of_memory: whether it ended early because memory ran out.
        state_bytes: bytes of weights, optimizer state and metrics.
        memory: in a run alone, the highest rise of memory; None in other runs.
        model: the trained model; None after mode "processes" and after a mere measurement.
        values: the trained weights, if the model is in another process.
    """

    name: str
    policy: str
    steps: int = 0
    timed_steps: int = 0
    setup_s: float = 0.0
    finished_s: float = 0.0
    running_s: float = 0.0
    samples_per_second: float | None = None
    slowdown: float | None = None
    loss: float | None = None
    skipped_steps: int = 0
    history: Mapping[str, list[float]] = field(default_factory=dict)
    error: str = ""
    out_of_memory: bool = False
    state_bytes: int = 0
    memory: Memory | None = None
    model: "keras.Model | None" = field(default=None, repr=False, compare=False)
    values: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    @property
    def weights(self) -> list[np.ndarray]:
        """The trained weights, as `model.get_weights()` returns them."""
        return self.model.get_weights() if self.model is not None else list(self.values)

    @property
    def step_s(self) -> float | None:
        """Seconds of a step while the job ran; None if no step was timed."""
        return self.running_s / self.timed_steps if self.timed_steps else None


@dataclass(frozen=True)
class ModeResult:
    """All jobs in one mode.

    Attributes:
        mode: name of the mode.
        jobs: the result of each job.
        setup_s: seconds until all jobs were set up.
        total_s: seconds of the whole run.
        memory: the highest rise of memory; for processes, the sum of theirs.
        predicted_s: after a measurement, the seconds that all steps of all jobs would take.
    """

    mode: str
    jobs: tuple[JobResult, ...]
    setup_s: float
    total_s: float
    memory: Memory | None = None
    predicted_s: float | None = None

    @property
    def failed(self) -> tuple[JobResult, ...]:
        """The jobs that ended early with an error."""
        return tuple(job for job in self.jobs if job.error)


@dataclass(frozen=True)
class ColocateReport(Report):
    """The result of `colocate`; it prints as a recommendation and tables.

    Attributes:
        device: the device that the jobs shared.
        backend: the Keras backend.
        mode: the mode that is recommended, or that was asked for.
        reason: why this mode was taken.
        measured: short runs in each mode; in "sequential" each job is alone.
        run: the jobs' whole training; None if the jobs were only measured.
        notes: modes that were not measured, with the reason.
    """

    SCHEMA = "tfmp.colocate/2"

    device: Device
    backend: str
    mode: str
    reason: str
    measured: tuple[ModeResult, ...] = ()
    run: ModeResult | None = None
    notes: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[JobResult, ...]:
        """The result of each job."""
        return self.run.jobs if self.run else ()

    @property
    def failed(self) -> tuple[JobResult, ...]:
        """The jobs that ended early with an error."""
        return self.run.failed if self.run else ()

    def __getitem__(self, name: str) -> JobResult:
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(f"no job {name!r} was trained; the jobs are {[j.name for j in self.jobs]}")

    @property
    def heading(self) -> str:
        """Of the page."""
        return f"{len((self.run or self.measured[0]).jobs)} trainings on {self.device.name}"

    @property
    def conclusion(self) -> str:
        """The jobs that ended early, and the mode with its reason."""
        early = [f"{job.name} ended early: {job.error}" for job in self.failed]
        return "\n".join([*early, f"Mode {self.mode}: {self.reason}"])

    def sections(self, on_page: bool = True) -> list[Section]:
        """The modes that were tried, the jobs, and what to know of both."""
        lines = [f"note: {note}" for note in self.notes]
        lines += [
            f"{job.name} skipped {job.skipped_steps} of {job.steps} steps: "
            "their gradients were not finite"
            for job in self.jobs
            if job.skipped_steps
        ]
        return [
            Section("Modes", tables=(_mode_table(self.measured),)),
            Section("Jobs", tables=(_job_table(self.jobs),)),
            Section("Notes", lines=tuple(lines)),
        ]


def _mode_table(rows: tuple[ModeResult, ...]) -> Table:
    return table_of(
        "",
        rows,
        {
            "mode": lambda row: row.mode,
            "whole training": lambda row: cell(seconds_text, row.predicted_s),
            "a step of each job": lambda row: (
                ", ".join(seconds_text(job.step_s) for job in row.jobs if job.step_s) or NONE
            ),
            "memory": lambda row: bytes_text(row.memory.bytes) if row.memory else NONE,
            "ended early": lambda row: ", ".join(job.name for job in row.failed) or "none",
        },
        words=("mode", "ended early"),
    )


def _job_table(jobs: tuple[JobResult, ...]) -> Table:
    return table_of(
        "",
        jobs,
        {
            "job": lambda job: job.name,
            "policy": lambda job: job.policy,
            "steps": lambda job: str(job.steps),
            "set-up": lambda job: cell(seconds_text, job.setup_s or None),
            "done after": lambda job: cell(seconds_text, job.finished_s or None),
            "samples/s": lambda job: cell("{:,.0f}".format, job.samples_per_second),
            "slow-down": lambda job: cell("{:.2f}x".format, job.slowdown),
            "loss": lambda job: cell("{:.4g}".format, job.loss),
        },
        words=("job", "policy"),
    )
