"""FitRecorder: collects the events of one `fit`, and makes its report."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import keras
import numpy as np

from tfmp.fit.report import Event, Reading, TrainingReport, median_seconds_per_step
from tfmp.loss_scaling import GradientHealth, Offender, StepCounters, read_model_counters
from tfmp.precision import PrecisionPlan
from tfmp.shared.findings import Finding
from tfmp.shared.packages import installed_versions

_PACKAGES = ("tfmp", "keras", "tensorflow", "jax", "numpy")


class FitRecorder:
    """The course of one `fit` so far.

    Attributes:
        findings: the findings of the pre-flight checks.
        epoch: the epoch in progress, from 0.
    """

    def __init__(self, model: keras.Model, plan: PrecisionPlan, say: Callable[[str], None]) -> None:
        self.findings: list[Finding] = []
        self.epoch = 0
        self._model = model
        self._plan = plan
        self._say = say
        self._start: StepCounters | None = None
        self._latest: StepCounters | None = None
        self._at_epoch_begin: StepCounters | None = None
        self._steps_at_start = self._steps_at_epoch_begin = self._steps()
        self._readings: list[Reading] = []
        self._events: list[Event] = []
        self._curves: dict[str, list[float]] = {}
        self._first_epoch = 0
        self._seconds_per_step: list[float] = []
        self._epoch_seconds = 0.0
        self._running_since: float | None = None
        self._began = False

    def optimizer_replaced(self) -> None:
        """Starts counting anew: the model has another optimizer, whose counters begin at 0."""
        self._start = self._latest = self._at_epoch_begin = self._counters()

    def epoch_began(self, epoch: int) -> None:
        """Starts the clock of an epoch."""
        if not self._began:
            # Not earlier: another callback may have restored the counters of an interrupted run.
            self.optimizer_replaced()
            self._steps_at_start = self._steps()
            self._first_epoch = epoch
            self._began = True
        self.epoch = epoch
        self._at_epoch_begin = self._latest
        self._steps_at_epoch_begin = self._steps()
        self._epoch_seconds = 0.0
        self._running_since = time.perf_counter()

    def pause(self) -> None:
        """Stops the clock until the next epoch."""
        if self._running_since is not None:
            self._epoch_seconds += time.perf_counter() - self._running_since
            self._running_since = None

    def read(self) -> tuple[StepCounters | None, StepCounters | None]:
        """Takes a reading, with one transfer; returns the reading before it and the new one."""
        before, self._latest = self._latest, self._counters()
        if self._latest is not None:
            reading = Reading(
                step=self._latest.steps,
                epoch=self.epoch,
                loss_scale=self._latest.loss_scale,
                skipped_steps=_skipped(self._start, self._latest),
            )
            health = self.health()
            self._readings.append(_with_gradients(reading, health) if health else reading)
        return before, self._latest

    def peek(self) -> StepCounters:
        """The counters now, without a reading in the report; only for models with a loss scale."""
        counters = self._counters()
        assert counters is not None
        return counters

    def since_start(self, now: StepCounters) -> tuple[int, int]:
        """The skipped steps, and all steps, of this `fit` so far."""
        steps = now.steps - self._start.steps if self._start is not None else now.steps
        return _skipped(self._start, now), steps

    def epoch_ended(self) -> None:
        """Ends the epoch that was just read."""
        self.pause()
        steps = self._steps() - self._steps_at_epoch_begin
        if steps > 0:
            self._seconds_per_step.append(self._epoch_seconds / steps)

    def epoch_logs(self) -> dict[str, float]:
        """The entries that Keras's `logs` get at the end of an epoch."""
        logs = {
            "loss_scale": self._latest.loss_scale if self._latest is not None else 1.0,
            "skipped_steps": _skipped(self._at_epoch_begin, self._latest),
        }
        if self._latest is not None:
            health = self.health()
            logs["underflow"] = health.underflow if health else math.nan
            logs["gradient_norm"] = health.norm if health else math.nan
        return logs

    def health(self) -> GradientHealth | None:
        """The latest measurement of the gradients in this `fit`."""
        if self._start is None or self._latest is None or self._latest.gradients is None:
            return None
        began_at = self._start.steps - self._start.skipped_steps
        gradients = self._latest.gradients
        if gradients.step < began_at:
            return None
        if "float16" in self._plan.narrow_dtypes:
            return gradients
        # The gauges tell what FP16 would lose; bfloat16 has the range of float32.
        kept = tuple(replace(row, underflow=0.0) for row in gradients.variables)
        return replace(gradients, underflow=0.0, headroom_bits=math.inf, variables=kept)

    def whole_epoch_skipped(self) -> bool:
        """Whether no step of the epoch was applied, as of the latest reading."""
        skipped = _skipped(self._at_epoch_begin, self._latest)
        return 0 < skipped == self._steps() - self._steps_at_epoch_begin

    def scalars(self) -> tuple[int, dict[str, float]]:
        """The latest reading for telemetry: the step, and numbers by name."""
        scalars = {}
        if self._latest is not None:
            scalars.update(replace(self._latest, gradients=self.health()).scalars())
        if self._seconds_per_step:
            scalars["seconds_per_step"] = self._seconds_per_step[-1]
        return self._steps(), scalars

    def add_curves(self, logs: Mapping[str, object]) -> None:
        """Takes the numbers among the logs of an epoch; NaN for the epochs before a new one."""
        epochs = max(map(len, self._curves.values()), default=0)
        for name, value in logs.items():
            number = np.asarray(value)
            if number.size == 1 and number.dtype.kind in "fiu":
                curve = self._curves.setdefault(name, [math.nan] * epochs)
                curve.append(float(number.reshape(())))

    def steps(self) -> int:
        """Steps of this `fit`, as of the latest reading."""
        return self._steps() - self._steps_at_start

    def note(self, text: str, step: int | None = None) -> None:
        """Adds an event and prints it: at a step, or at the latest reading."""
        self._events.append(Event(self._steps() if step is None else step, text))
        self._say(f"tfmp: {text}")

    def report(self) -> TrainingReport:
        """The report as of the latest reading, with the dtypes that the layers have now."""
        plan = self._plan.with_moved(self._model)
        report = TrainingReport(
            policy=plan.policy,
            reason=plan.reason,
            kept_float32=plan.kept_float32(),
            steps=self.steps(),
            skipped_steps=_skipped(self._start, self._latest),
            loss_scales=tuple(self._readings),
            seconds_per_step=median_seconds_per_step(self._seconds_per_step),
            findings=tuple(self.findings),
            events=tuple(self._events),
            model=self._model.name,
            layers=plan.rows,
            first_loss_scale=self._start.loss_scale if self._start is not None else None,
            first_epoch=self._first_epoch,
            curves={name: tuple(curve) for name, curve in self._curves.items()},
            environment={
                **installed_versions(_PACKAGES),
                "Keras backend": keras.backend.backend(),
            },
        )
        if self._start is None or self._latest is None:
            return report
        offenders = _offenders_since(self._start, self._latest)
        return replace(report, offenders=offenders, gradients=self.health())

    def _counters(self) -> StepCounters | None:
        return read_model_counters(self._model)

    def _steps(self) -> int:
        """Steps of the optimizer; with a loss scale, as of the latest reading."""
        if self._latest is not None:
            return self._latest.steps
        return int(keras.ops.convert_to_numpy(self._model.optimizer.iterations))


def _with_gradients(reading: Reading, health: GradientHealth) -> Reading:
    largest = [row.largest for row in health.variables if row.largest]
    return replace(
        reading,
        largest_gradient=max(largest, default=None),
        smallest_gradient=min(largest, default=None),
        gradient_norm=health.norm,
        underflow=health.underflow,
        gradient_step=health.step + 1,
    )


def _skipped(before: StepCounters | None, now: StepCounters | None) -> int:
    if before is None or now is None:
        return 0
    return now.skipped_steps - before.skipped_steps


def _offenders_since(start: StepCounters, now: StepCounters) -> tuple[Offender, ...]:
    """The offenders of the steps between two readings."""
    before = {offender.variable: offender for offender in start.offenders}
    found = []
    for offender in now.offenders:
        old = before.get(offender.variable, Offender(offender.variable, 0, 0))
        found.append(
            Offender(
                offender.variable,
                offender.nonfinite_steps - old.nonfinite_steps,
                offender.first_steps - old.first_steps,
            )
        )
    found.sort(key=lambda offender: offender.first_steps, reverse=True)
    return tuple(offender for offender in found if offender.nonfinite_steps)
