"""TrainingReport: the course of a mixed-precision `fit`, for people and for programs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tfmp.loss_scaling import GradientHealth, Offender
from tfmp.precision import LayerPrecision, layer_table
from tfmp.shared.findings import Finding
from tfmp.shared.html_page import SIGNS, Bar
from tfmp.shared.reporting import Drawing, Picture, Report, Section, Table
from tfmp.shared.wording import counted, listed

# Findings that call for a change, for a look, and others, the worst first.
_STATUSES = {"problem": "FAIL", "warning": "INCONCLUSIVE", "note": "PASS", "ok": "PASS"}
_TITLES = {
    "PASS": "✓ no trouble found",
    "INCONCLUSIVE": "? worth a look",
    "FAIL": "✗ needs a change",
}

# More rows than this are no longer read at a glance.
_MOST_VARIABLES = 15
_MOST_LAYERS = 200


@dataclass(frozen=True)
class Reading:
    """The counters at one moment.

    Attributes:
        step: steps of the optimizer, skipped ones included.
        epoch: the epoch in progress, from 0.
        loss_scale: the scale of the next step.
        skipped_steps: steps that were skipped since `fit` began.
        underflow: estimated share of the values that FP16 loses from the gradients of the latest
            measured step; None before the first one.
        gradient_step: that step, from 1; skipped steps do not count.
    """

    step: int
    epoch: int
    loss_scale: float
    skipped_steps: int
    underflow: float | None = None
    gradient_step: int | None = None


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
class TrainingReport(Report):
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
        model: name of the model.
        layers: all rows of the plan.
        first_epoch: the first epoch of this `fit`, from 0.
        curves: the numbers of Keras's logs at the end of each epoch, by name.
        environment: versions by package, and the backend of Keras.
        first_loss_scale: the scale of the first step; None without one.
    """

    SUFFIXES: ClassVar[tuple[str, ...]] = (".html", ".json", ".md")
    SCHEMA = "tfmp.training/2"
    DERIVED = ("verdict", "conclusion")

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
    model: str = ""
    layers: tuple[LayerPrecision, ...] = ()
    first_epoch: int = 0
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    first_loss_scale: float | None = None

    @property
    def verdict(self) -> str:
        """FAIL if something has to change, INCONCLUSIVE if something is worth a look, or PASS."""
        statuses = {_STATUSES[finding.status] for finding in self.findings}
        losses = self.curves.get("loss", ())
        if "FAIL" in statuses or (losses and not math.isfinite(losses[-1])):
            return "FAIL"
        return "INCONCLUSIVE" if "INCONCLUSIVE" in statuses or self.events else "PASS"

    @property
    def conclusion(self) -> str:
        """The course of the training, in a few sentences."""
        losses = self.curves.get("loss", ())
        narrow = sum(row.compute_dtype == self.layer_dtype for row in self.layers)
        parts = [f"{_steps(self.steps)} in {self.policy} ({self.reason})."]
        if self.layers:
            parts.append(f"{narrow} of {len(self.layers)} layers compute in {self.layer_dtype}.")
        if self.loss_scales:
            share = self.skipped_steps / self.steps if self.steps else 0.0
            parts.append(
                f"{_steps(self.skipped_steps)} ({share:.1%}) "
                f"{'was' if self.skipped_steps == 1 else 'were'} skipped, and the loss scale ended "
                f"at {self.loss_scales[-1].loss_scale:g}."
            )
        if losses and not math.isfinite(losses[-1]):
            parts.append("In the last epoch the loss was not finite in any step.")
        elif len(losses) == 1:
            parts.append(f"The loss was {losses[0]:.4g}.")
        elif losses:
            parts.append(f"The loss went from {losses[0]:.4g} to {losses[-1]:.4g}.")
        troubles = len(self.events) + sum(_STATUSES[f.status] != "PASS" for f in self.findings)
        if troubles:
            parts.append(f"{troubles} finding{'s' if troubles > 1 else ''} below.")
        return " ".join(parts)

    @property
    def layer_dtype(self) -> str:
        """The dtype that the base policy computes in."""
        return self.policy.removeprefix("mixed_")

    @property
    def gradient_sizes(self) -> str:
        """The sizes of the gradients in the latest measured step; empty without one."""
        health = self.gradients
        if health is None:
            return ""
        parts = [f"norm {health.norm:.3g}"]
        if not self.layers or any(row.compute_dtype == "float16" for row in self.layers):
            parts.append(f"underflow {health.underflow:.1%}")
        if math.isfinite(health.headroom_bits):
            parts.append(f"headroom 2^{round(health.headroom_bits)} to 65504")
        return ", ".join(parts) + f" (the optimizer's step {health.step + 1})"

    @property
    def heading(self) -> str:
        return f"Training of “{self.model or 'a model'}” in {self.policy}"

    @property
    def signal(self) -> tuple[str, str]:
        return self.verdict, _TITLES[self.verdict]

    def sections(self, on_page: bool = True) -> list[Section]:
        names = ("epoch", *self.curves)
        length = max(map(len, self.curves.values()), default=0)
        epochs = Table(
            names,
            tuple(
                (
                    f"{self.first_epoch + place + 1}",
                    *(f"{curve[place]:.5g}" for curve in self.curves.values()),
                )
                for place in range(length)
            ),
            "The logs of each epoch" if on_page else "",
            folded=on_page,
        )
        # Those against the base policy first.
        ranked = sorted(self.layers, key=lambda row: row.compute_dtype == self.layer_dtype)
        most = _MOST_LAYERS if on_page else len(self.layers)
        more = len(self.layers) - most
        # Keras averages over all steps; a gap says that there was none to average.
        gap = (
            "Training values are means over the steps that were applied; a gap is an epoch in "
            "which the value was not finite."
        )
        return [
            Section("Findings", lines=self._troubles()),
            Section(
                "Loss and metrics",
                drawings=self._drawings() if on_page else (),
                tables=(epochs,),
                quiet=(gap,) if self.curves else (),
            ),
            Section("Gradients", pictures=(self._underflow(),) if on_page else ()),
            Section(
                "Plan",
                tables=(layer_table(ranked[:most]),),
                quiet=(f"{more} more layers are in the JSON report.",) if more > 0 else (),
            ),
            Section("Evidence", facts=tuple(self._evidence().items())),
        ]

    def _drawings(self) -> tuple[Drawing, ...]:
        from tfmp.fit import figures

        hidden = () if self.loss_scales else ("loss_scale", "skipped_steps")
        shown = {key: one for key, one in self.curves.items() if any(one) and key not in hidden}
        pictures = figures.curves_by_epoch(shown, self.first_epoch)
        return tuple(Drawing(f"{name} by epoch", svg) for name, svg in pictures)

    def _troubles(self) -> tuple[str, ...]:
        """The findings, the worst first, and the events."""
        ranked = sorted(self.findings, key=lambda finding: list(_STATUSES).index(finding.status))
        found = [f"{SIGNS[_STATUSES[one.status]]} {one.status}: {one}" for one in ranked]
        return (*found, *(f"? step {event.step:,}: {event.text}" for event in self.events))

    def _underflow(self) -> Picture:
        """The share of each variable's gradient that FP16 loses, the largest first."""
        health = self.gradients if self.layer_dtype == "float16" else None
        lossy = [row for row in health.variables if row.underflow] if health else []
        rows = sorted(lossy, key=lambda row: row.underflow, reverse=True)
        bars = tuple(
            Bar(
                row.variable,
                f"{row.underflow:.1%} lost, largest {row.largest:.2g}",
                row.underflow,
                verdict="FAIL" if row.underflow > 0.5 else None,
            )
            for row in rows[:_MOST_VARIABLES]
        )
        return Picture(
            "Share of each variable's gradient that is 0 in FP16 but not in float32, in the latest "
            "measured step",
            bars,
        )

    def _evidence(self) -> dict[str, str]:
        found = {"Policy": f"{self.policy}: {self.reason}", "Steps": f"{self.steps:,}"}
        if self.seconds_per_step is not None:
            found["Step"] = f"{self.seconds_per_step * 1e3:.3g} ms, median over epochs"
        if self.gradients is not None:
            found["Gradients"] = self.gradient_sizes
        return {**found, **self.environment}

    def __str__(self) -> str:
        lines = [f"tfmp: {self.policy} ({self.reason})"]
        if self.loss_scales:
            last = self.loss_scales[-1].loss_scale
            first = last if self.first_loss_scale is None else self.first_loss_scale
            ends = dict.fromkeys((first, last))
            lines.append("  loss scale " + " to ".join(f"{scale:.9g}" for scale in ends))
        if self.steps:
            share = self.skipped_steps / self.steps
            lines.append(f"  skipped {self.skipped_steps} of {self.steps} steps ({share:.1%})")
        lines += [
            f"  first non-finite in {counted(offender.first_steps, 'step')}: {offender.variable}"
            for offender in self.offenders[:3]
            if offender.first_steps
        ]
        if self.gradients is not None:
            lines.append(f"  gradients: {self.gradient_sizes}")
        if self.kept_float32:
            kept = listed([row.path for row in self.kept_float32], 4)
            lines.append(f"  kept in float32: {kept}")
        if self.seconds_per_step is not None:
            lines.append(f"  {self.seconds_per_step * 1e3:.3g} ms per step")
        lines += [f"  {finding.status}: {finding}" for finding in self.findings]
        lines += [f"  at step {event.step}: {event.text}" for event in self.events]
        return "\n".join(lines)


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"
