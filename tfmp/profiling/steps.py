"""StepProfile: a step under one policy at one size; StepReport: what reports of steps share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tfmp.machine import (
    Device,
    GpuUse,
    Memory,
    Timing,
    median_interval,
    paired_ratio,
    ratios,
    seconds_text,
)
from tfmp.profiling.kernels import KernelUse
from tfmp.shared.reporting import Report, Section

TRAIN, PREDICT = "train", "predict"

# The columns of `StepProfile.cells`.
COLUMNS = ("step", "spread", "samples/s", "memory", "compile")


@dataclass(frozen=True)
class StepProfile:
    """One step under one variant at one size.

    Attributes:
        variant: the policy, with "(TF32)" if float32 products ran as TF32, and "XLA" or "no XLA".
        policy: the policy.
        step: seconds of a step, one measurement for each round; None if no step could be run.
        batch_size: samples in a step.
        compile_s: seconds of tracing and compiling: the first step's time without a usual one's.
        memory: memory that the step needs: weights, optimizer state, a batch, and a step's rise.
        loss: mean loss over the steps of the last round.
        total_steps: number of all steps that were taken until then.
        skipped_steps: steps that the loss-scale optimizer did not apply.
        kept_float32: number of layers that the plan keeps in float32.
        kernels: the kernels that the profiler saw, on a GPU with xprof.
        gpu: the card's use during some seconds of these steps; None if it was not watched.
        error: the reason why no step could be run; empty if it ran.
        mode: "train", or "predict" for a call of `predict`.
        xla: whether XLA compiled the step; None if that was the model's choice.
        parameters: number of the model's weights.
        steps: number of steps in each timing.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("samples_per_second",)

    variant: str
    policy: str
    step: Timing | None = None
    batch_size: int = 0
    compile_s: float = 0.0
    memory: Memory | None = None
    loss: float | None = None
    total_steps: int = 0
    skipped_steps: int = 0
    kept_float32: int = 0
    kernels: KernelUse | None = None
    gpu: GpuUse | None = None
    error: str = ""
    mode: str = TRAIN
    xla: bool | None = None
    parameters: int = 0
    steps: int = 0

    @property
    def samples_per_second(self) -> float | None:
        """Throughput at the median step."""
        return self.batch_size / self.step.median if self.step else None

    def speedup(self, base: "StepProfile | None") -> float | None:
        """How many times faster than a base it is, as the median over rounds; None if unknown."""
        if base is None or base.step is None or self.step is None:
            return None
        return paired_ratio(base.step, self.step)

    def speedup_range(self, base: "StepProfile | None") -> tuple[float, float] | None:
        """The interval that holds the true median of the speed-up with 95 % confidence.

        None if one of both did not run, and for fewer than six rounds.
        """
        if base is None or base.step is None or self.step is None:
            return None
        return median_interval(ratios(base.step, self.step))

    def cells(self) -> list[str]:
        """The cells of `COLUMNS`; the first one says why a step did not run."""
        if self.step is None:
            return [f"did not run: {self.error}", *[""] * (len(COLUMNS) - 1)]
        return [
            seconds_text(self.step.median),
            f"{seconds_text(self.step.low)} to {seconds_text(self.step.high)}",
            f"{self.samples_per_second or 0:,.0f}",
            self.memory.text if self.memory else "-",
            seconds_text(self.compile_s),
        ]


@dataclass(frozen=True)
class StepReport(Report):
    """What the reports of steps share: each says its conclusion and its sections.

    Attributes:
        model: name of the model.
        device: the device that it ran on.
        backend: the Keras backend.
        environment: versions by package, and the processor.
        rounds: number of timings of each step.
    """

    model: str
    device: Device
    backend: str
    environment: Mapping[str, str]
    rounds: int

    def evidence(self, lines: Iterable[str], more: Mapping[str, str]) -> Section:
        """The last section: notes, and on what it ran."""
        facts = {"Device": str(self.device), "Keras backend": self.backend, **more}
        shown = tuple({**facts, **self.environment}.items())
        return Section("Evidence", lines=tuple(lines), facts=shown)
