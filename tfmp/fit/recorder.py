"""FitRecorder: the one list of what happens in a `fit`, which report, logs and watches read."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from tfmp.fit.report import Event, Reading, TrainingReport
from tfmp.loss_scaling import GradientHealth, StepCounters, read_model_counters, scaled_optimizers
from tfmp.precision import PrecisionPlan
from tfmp.shared.backend import current_backend
from tfmp.shared.findings import Finding
from tfmp.shared.packages import installed_versions

_PACKAGES = ("tfmp", "keras", "tensorflow", "jax", "numpy")


@dataclass(frozen=True)
class Moment:
    """An entry of the list.

    Attributes:
        kind: "start" of the counting, "epoch", "reading", "repair" (the cause of the skipped steps
            before it is gone), "finding" or "event".
        counters: of all optimizers then, as they were read last.
        since: those of the steps after the latest start, reading or repair before it.
        said: the `Reading`, the `Finding` or the `Event`.
    """

    kind: str
    counters: StepCounters
    since: StepCounters
    said: object = None


class FitRecorder:
    """The course of one `fit` so far.

    Attributes:
        epoch: the epoch in progress, from 0.
        moments: in their order.
        optimizers: those of the model that scale the loss; to find them takes milliseconds.
        is_scaled: whether an optimizer scales the loss; without one, no step is ever skipped.
    """

    def __init__(self, model: keras.Model, plan: PrecisionPlan, say: Callable[[str], None]) -> None:
        self.epoch = 0
        self.moments: list[Moment] = []
        self.optimizers = scaled_optimizers(model)
        self._latest_of: dict[str, int] = {}
        self._said: dict[type, list[Any]] = {Reading: [], Finding: [], Event: []}
        self._model = model
        self._plan = plan
        self._say = say
        self._versions = installed_versions(_PACKAGES)
        self._curves: dict[str, list[float]] = {}
        self._first_epoch: int | None = None
        self._seconds_per_step: list[float] = []
        self._epoch_seconds = 0.0
        self._running_since: float | None = None
        self.is_scaled = False
        self._repeated = 0
        # Without a reading: a model that was restored in between counts from its first epoch on.
        self._add("start", StepCounters(1.0, 0))

    # --- what happens ---

    def start_counting(self, now: StepCounters | None = None) -> None:
        """Counts from now on: the `fit` begins, or the optimizer has another wrapper or scale.

        Args:
            now: the counters, if the steps since the latest start do not count: skipped ones.
        """
        is_known, now = now is not None, now or self.peek()
        # Steps that an earlier wrapper counted are steps, too.
        if self._first_epoch is not None and not is_known:
            now = replace(now, steps=min(now.steps, self.latest().counters.steps))
        if is_known:
            repeated = now.steps - self.latest().counters.steps
            self._repeated += repeated
            now = _without(repeated, now)
        self._add("start", now)

    def epoch_began(self, epoch: int) -> None:
        """Starts the clock of an epoch."""
        if self._first_epoch is None:
            # Not earlier: another callback may have restored the counters of an interrupted run.
            self.start_counting()
            self._first_epoch = epoch
        self.epoch = epoch
        self._add("epoch", self.counters)
        self._epoch_seconds = 0.0
        self._running_since = time.perf_counter()

    def pause(self) -> None:
        """Stops the clock until the next epoch."""
        if self._running_since is not None:
            self._epoch_seconds += time.perf_counter() - self._running_since
            self._running_since = None

    def read(self) -> None:
        """Takes a reading, with one transfer."""
        now = self.peek()
        so_far = now.since(self.latest().counters)
        health = self._of_plan(so_far.gradients)
        measured = (health.underflow, health.step + 1) if health else ()
        skipped = so_far.skipped_steps
        self._add(
            "reading", now, Reading(now.steps, self.epoch, now.loss_scale, skipped, *measured)
        )

    def epoch_ended(self) -> None:
        """Ends the epoch that was just read."""
        self.pause()
        if steps := self.since("epoch").steps:
            self._seconds_per_step.append(self._epoch_seconds / steps)

    def repaired(self, now: StepCounters) -> None:
        """Notes that the cause of the steps skipped until now is gone."""
        self._add("repair", now)

    def tell(self, findings: Iterable[Finding]) -> None:
        """Adds findings, and prints them."""
        for finding in findings:
            self._add("finding", self.counters, finding)
            self._say(f"tfmp: {finding}")

    def note(self, text: str, step: int | None = None) -> None:
        """Adds an event, and prints it: at a step, or at the latest reading."""
        self._add(
            "event", self.counters, Event(self.counters.steps if step is None else step, text)
        )
        self._say(f"tfmp: {text}")

    def end(self) -> None:
        """Reads again if something has changed since: the summary is of the state at the end."""
        before, now = self.counters, self.peek()
        if self._first_epoch is not None and (before.steps, before.loss_scale) != (
            now.steps,
            now.loss_scale,
        ):
            self.read()

    def add_curves(self, logs: Mapping[str, object]) -> None:
        """Takes the numbers among the logs of an epoch; NaN for the epochs before a new one."""
        epochs = max(map(len, self._curves.values()), default=0)
        for name, value in logs.items():
            number = np.asarray(value)
            if number.size == 1 and number.dtype.kind in "fiu":
                curve = self._curves.setdefault(name, [math.nan] * epochs)
                curve.append(float(number.reshape(())))

    def _add(self, kind: str, counters: StepCounters, said: object = None) -> None:
        before = self.latest("reading", "repair").counters if self.moments else counters
        self._latest_of[kind] = len(self.moments)
        self.moments.append(Moment(kind, counters, counters.since(before), said))
        if said is not None:
            self._said[type(said)].append(said)

    # --- what is asked ---

    @property
    def counters(self) -> StepCounters:
        """As of the latest reading."""
        return self.moments[-1].counters

    def peek(self) -> StepCounters:
        """The counters now, without an entry; of a model without a loss scale, its steps alone."""
        counters = read_model_counters(self._model, self.optimizers)
        self.is_scaled = counters is not None
        if counters is not None:
            return _without(self._repeated, counters)
        if hasattr(self._model, "jax_state_sync"):
            self._model.jax_state_sync()  # `fit` holds the values between steps
        return StepCounters(1.0, int(keras.ops.convert_to_numpy(self._model.optimizer.iterations)))

    def since(self, *kinds: str, now: StepCounters | None = None) -> StepCounters:
        """The counters of the steps after the latest moment of such a kind, or the latest start."""
        return (now or self.counters).since(self.latest(*kinds).counters)

    def latest(self, *kinds: str) -> Moment:
        """The latest of such moments, or the latest start."""
        return self.moments[max(self._latest_of.get(kind, 0) for kind in (*kinds, "start"))]

    def knows(self, *checks: str) -> bool:
        """Whether one of these checks has a finding."""
        return any(finding.check in checks for finding in self._said[Finding])

    def health(self) -> GradientHealth | None:
        """The latest measurement of the gradients in this `fit`."""
        return self._of_plan(self.since().gradients)

    def epoch_logs(self) -> dict[str, float]:
        """The entries that Keras's `logs` get at the end of an epoch."""
        counters, health = self.counters, self.health()
        logs = {
            "loss_scale": counters.loss_scale,
            "skipped_steps": self.since("epoch").skipped_steps,
        }
        if self.is_scaled:
            logs["underflow"] = health.underflow if health else math.nan
            logs["gradient_norm"] = health.norm if health else math.nan
        return logs

    def scalars(self) -> tuple[int, dict[str, float]]:
        """The latest reading for telemetry: the step, and numbers by name."""
        scalars = {}
        if self.is_scaled:
            scalars.update(replace(self.counters, gradients=self.health()).scalars())
        if self._seconds_per_step:
            scalars["seconds_per_step"] = self._seconds_per_step[-1]
        return self.counters.steps, scalars

    def report(self) -> TrainingReport:
        """The report as of the latest reading, with the dtypes that the layers have now."""
        plan, so_far = self._plan.with_moved(self._model), self.since()
        epochs = self._seconds_per_step
        return TrainingReport(
            policy=plan.policy,
            reason=plan.reason,
            kept_float32=plan.kept_float32(),
            steps=so_far.steps,
            skipped_steps=so_far.skipped_steps,
            loss_scales=tuple(self._said[Reading]) if self.is_scaled else (),
            offenders=so_far.offenders,
            gradients=self.health(),
            seconds_per_step=statistics.median(epochs[1:] or epochs) if epochs else None,
            findings=tuple(self._said[Finding]),
            events=tuple(self._said[Event]),
            model=self._model.name,
            layers=plan.rows,
            first_loss_scale=self.latest().counters.loss_scale if self.is_scaled else None,
            first_epoch=self._first_epoch or 0,
            curves={name: tuple(curve) for name, curve in self._curves.items()},
            environment={
                **self._versions,
                "Keras backend": current_backend().name,
            },
        )

    def _of_plan(self, health: GradientHealth | None) -> GradientHealth | None:
        """Gauges tell what FP16 would lose; bfloat16 has the range of float32."""
        return health if "float16" in self._plan.narrow_dtypes else health and health.in_range


def _without(repeated: int, counters: StepCounters) -> StepCounters:
    """Counters without skipped steps that were taken again."""
    steps, skipped = counters.steps - repeated, counters.skipped_steps - repeated
    run = min(skipped, counters.consecutive_skips)
    return replace(counters, steps=steps, skipped_steps=skipped, consecutive_skips=run)
