"""TrainingReport: the course of a mixed-precision `fit`, for people and for programs."""

import statistics
from dataclasses import asdict, dataclass

from tfmp.loss_scaling import ODD_JUMP, GradientHealth, Offender
from tfmp.precision import LayerPrecision
from tfmp.shared.findings import Finding
from tfmp.shared.report_files import JsonObject
from tfmp.shared.wording import listed


@dataclass(frozen=True)
class Reading:
    """The counters at one moment.

    Attributes:
        step: steps of the optimizer, skipped ones included.
        epoch: the epoch in progress, from 0.
        loss_scale: the scale of the next step.
        skipped_steps: steps that were skipped since `fit` began.
    """

    step: int
    epoch: int
    loss_scale: float
    skipped_steps: int


@dataclass(frozen=True)
class Event:
    """An event of the training.

    Attributes:
        step: steps of the optimizer when the event was noticed.
        text: a sentence about it.
    """

    step: int
    text: str


@dataclass(frozen=True)
class TrainingReport:
    """The course of a `fit` with `MixedPrecision`.

    Attributes:
        policy: the base policy.
        reason: why this policy was chosen.
        kept_float32: the plan's rows for layers that are float32 against the policy.
        steps: steps of this `fit`, skipped ones included.
        skipped_steps: steps that were not applied, because their gradients were not finite.
        loss_scales: the readings, one for each `log_every`.
        offenders: variables whose gradients were not finite in this `fit`; the variable that was
            most often the first offender comes first.
        gradients: their sizes in the latest measured step of this `fit`; None without one.
        seconds_per_step: median over the epochs. Of several epochs the first is left out, because
            it contains the tracing and compiling. None before the first epoch has ended.
        findings: the findings of the pre-flight checks.
        events: episodes of non-finite steps, and layers that were moved to float32.
    """

    policy: str
    reason: str
    kept_float32: tuple[LayerPrecision, ...] = ()
    steps: int = 0
    skipped_steps: int = 0
    loss_scales: tuple[Reading, ...] = ()
    offenders: tuple[Offender, ...] = ()
    gradients: GradientHealth | None = None
    seconds_per_step: float | None = None
    findings: tuple[Finding, ...] = ()
    events: tuple[Event, ...] = ()

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"tfmp: {self.policy} ({self.reason})"]
        if self.loss_scales:
            scales = [reading.loss_scale for reading in self.loss_scales]
            lines.append(
                f"  loss scale {scales[0]:g} to {scales[-1]:g} "
                f"(lowest {min(scales):g}, highest {max(scales):g})"
            )
        if self.steps:
            share = self.skipped_steps / self.steps
            lines.append(f"  skipped {self.skipped_steps} of {self.steps} steps ({share:.1%})")
        lines += [
            f"  first non-finite in {offender.first_steps} steps: {offender.variable}"
            for offender in self.offenders[:3]
            if offender.first_steps
        ]
        if self.gradients is not None:
            lines.append(f"  gradients: {_described(self.gradients)}")
        if self.kept_float32:
            kept = listed([row.path for row in self.kept_float32], 4)
            lines.append(f"  kept in float32: {kept}")
        if self.seconds_per_step is not None:
            lines.append(f"  {self.seconds_per_step * 1e3:.3g} ms per step")
        lines += [f"  note: {finding}" for finding in self.findings]
        lines += [f"  at step {event.step}: {event.text}" for event in self.events]
        return "\n".join(lines)


def _described(health: GradientHealth) -> str:
    parts = [f"norm {health.norm:.3g}", f"underflow {health.underflow:.1%}"]
    if health.largest:
        parts.append(f"largest a factor 2^{health.headroom_bits:.0f} below 65504")
    if health.update_ratio is not None:
        parts.append(f"a step moves weights by {health.update_ratio:.1e} of their norm")
    if health.norm_jump is not None and health.norm_jump >= ODD_JUMP:
        parts.append(f"one norm stands out, by {health.norm_jump:.0f} deviations")
    return ", ".join(parts) + f" (step {health.step + 1})"


def median_seconds_per_step(epochs: list[float]) -> float | None:
    """The typical epoch's seconds per step; the first epoch counts only if it is the only one."""
    if not epochs:
        return None
    return statistics.median(epochs[1:] or epochs)
