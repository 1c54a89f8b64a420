"""The counters of the loss-scale optimizer: read from the device at once, and written to logs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import numpy as np

from tfmp.loss_scaling import gauges
from tfmp.loss_scaling.gradient_health import GradientHealth, health_of
from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.transitions import Counters, unpack
from tfmp.shared.atomic_file import naming
from tfmp.shared.backend import current_backend
from tfmp.shared.report_files import check_folder, plain
from tfmp.shared.wording import shown


@dataclass(frozen=True)
class Offender:
    """A trainable variable whose gradient was not finite at some step.

    Attributes:
        variable: its path in the model, such as "sequential/dense/kernel".
        nonfinite_steps: steps in which its gradient held an infinity or NaN.
        first_steps: steps in which it was the first of these variables in the order of
            backpropagation: the nearest to the loss.
    """

    variable: str
    nonfinite_steps: int
    first_steps: int

    def since(self, before: "Offender | None") -> "Offender":
        """The same for the steps after another snapshot."""
        if before is None:
            return self
        nonfinite = self.nonfinite_steps - before.nonfinite_steps
        return Offender(self.variable, nonfinite, self.first_steps - before.first_steps)


def _ranked(offenders: Iterable[Offender]) -> tuple[Offender, ...]:
    """Those with a step that was not finite, the one that was first most often first."""
    guilty = [one for one in offenders if one.nonfinite_steps]
    return tuple(sorted(guilty, key=lambda o: (-o.first_steps, -o.nonfinite_steps)))


@dataclass(frozen=True)
class StepCounters:
    """A snapshot of a LossScaleOptimizer, which counts from its creation.

    Attributes:
        loss_scale: number that the next loss will be multiplied by.
        steps: iterations of the inner optimizer plus skipped steps.
        skipped_steps: steps that were not applied, because their gradients were not finite.
        consecutive_skips: skipped steps since the last applied one.
        growths: number of times that the scale rose.
        backoffs: number of times that the scale fell.
        offenders: variables that ever had a non-finite gradient; the variable that was most often
            the first offender comes first.
        gradients: sizes of the gradients in the latest step that was measured; None before it.
    """

    loss_scale: float
    steps: int
    skipped_steps: int = 0
    consecutive_skips: int = 0
    growths: int = 0
    backoffs: int = 0
    offenders: tuple[Offender, ...] = ()
    gradients: GradientHealth | None = None

    def since(self, before: "StepCounters") -> "StepCounters":
        """The counters of the steps after another snapshot; gradients, if measured in one."""
        skipped = self.skipped_steps - before.skipped_steps
        known = {one.variable: one for one in before.offenders}
        changed = [one.since(known.get(one.variable)) for one in self.offenders]
        measured = self.gradients
        if measured is not None and measured.step < before.steps - before.skipped_steps:
            measured = None
        return replace(
            self,
            steps=self.steps - before.steps,
            skipped_steps=skipped,
            consecutive_skips=min(skipped, self.consecutive_skips),
            growths=self.growths - before.growths,
            backoffs=self.backoffs - before.backoffs,
            offenders=_ranked(changed),
            gradients=measured,
        )

    def scalars(self) -> dict[str, float]:
        """The numbers that are worth a curve over time, by name."""
        names = ("loss_scale", "skipped_steps", "consecutive_skips", "growths", "backoffs")
        own = {name: getattr(self, name) for name in names}
        return {**own, **(self.gradients.scalars() if self.gradients else {})}


class NonFiniteGradientsError(RuntimeError):
    """Too many steps were skipped: training cannot go on, but the weights are intact.

    Attributes:
        counters: the optimizer's counters.
        limit: the number of skips in a row that was allowed.
        cause: the reason, in sentences; empty if it is not known.
        layer: the 16-bit layer that overflows; None if no layer is known to.

    Args:
        reason: why it ends below the limit, as on_nonfinite="raise" asks; "" if it does not.
    """

    def __init__(
        self,
        counters: StepCounters,
        limit: int,
        cause: str = "",
        layer: str | None = None,
        reason: str = "",
    ) -> None:
        self.counters = counters
        self.limit = limit
        self.cause = cause
        self.layer = layer
        why = (
            f", as on_nonfinite='raise' asks: {reason}"
            if reason
            else (
                f": {counters.consecutive_skips} steps in a row had gradients that are not finite; "
                f"max_consecutive_skips={limit} allows no more"
            )
        )
        super().__init__(_explain(counters, why, cause, layer))


def read_counters(optimizer: LossScaleOptimizer, model: keras.Model | None = None) -> StepCounters:
    """Reads every counter with one transfer from the device.

    Args:
        optimizer: built or not; an optimizer that is not built has counted nothing.
        model: the model in training. On JAX, `fit` holds the optimizer's values itself between
            epochs, and they have to be handed back before they can be read.

    Returns:
        The snapshot.

    Raises:
        TypeError: the optimizer has no counters, like Keras's own.
    """
    if not isinstance(optimizer, LossScaleOptimizer):
        raise TypeError(
            "read_counters expects a tfmp.LossScaleOptimizer, received "
            f"{shown(optimizer)}. Wrap it: "
            "tfmp.LossScaleOptimizer(optimizer)."
        )
    if model is not None and hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
    if not optimizer.built:
        return StepCounters(optimizer.loss_scale.initial, 0)
    scale, iterations, packed, measured = current_backend().fetch(
        [
            optimizer.scale_variable,
            optimizer.inner_optimizer._iterations,
            optimizer.counters,
            optimizer.gauges,
        ]
    )
    counters = Counters(*(np.asarray(part, dtype=np.int64) for part in unpack(packed)))
    paths = [variable.path for variable in optimizer._trainable_variables]
    offenders = [
        Offender(path, int(nonfinite), int(first))
        for path, nonfinite, first in zip(
            paths,
            counters.nonfinite_counts,
            counters.first_offender_counts,
            strict=True,
        )
    ]
    running = counters.skip_run_at == int(iterations)
    return StepCounters(
        loss_scale=float(scale),
        steps=int(iterations) + int(counters.skipped_steps),
        skipped_steps=int(counters.skipped_steps),
        consecutive_skips=int(counters.skip_run) if running else 0,
        growths=int(counters.growths),
        backoffs=int(counters.backoffs),
        offenders=_ranked(offenders),
        gradients=health_of(gauges.unpack(measured), paths),
    )


def read_model_counters(
    model: keras.Model, optimizers: Iterable[LossScaleOptimizer]
) -> StepCounters | None:
    """The counters of all loss-scale optimizers of a model together; None if it has none.

    Steps and skips are added up; the loss scale is the lowest one. Optimizers that have taken no
    step do not count, and gradients are those of the optimizer that loses most of them.
    """
    readings = [read_counters(optimizer, model) for optimizer in optimizers]
    readings = [one for one in readings if one.steps] or readings[:1]
    if len(readings) < 2:
        return readings[0] if readings else None
    worst = max(readings, key=lambda one: one.consecutive_skips)
    healths = [one.gradients for one in readings if one.gradients is not None]
    added = ("steps", "skipped_steps", "growths", "backoffs")
    return replace(
        worst,
        **{name: sum(getattr(one, name) for one in readings) for name in added},
        loss_scale=min(one.loss_scale for one in readings),
        offenders=_ranked(offender for one in readings for offender in one.offenders),
        gradients=max(healths, key=lambda h: (h.underflow, -h.headroom_bits), default=None),
    )


def _explain(counters: StepCounters, why: str, cause: str, layer: str | None) -> str:
    where = repr(counters.offenders[0].variable) if counters.offenders else "not recorded"
    return (
        f"Training stopped{why}. The weights are as they were after the last finite step.\n"
        f"  First gradient that was not finite, from the loss back: {where}\n"
        f"  Loss scale: {counters.loss_scale:g} after {counters.backoffs} reductions; "
        f"{counters.skipped_steps} of {counters.steps} steps skipped in all\n"
        + (f"  Cause: {cause}\n" if cause else "")
        + "Try, in this order:\n"
        "  1. tfmp.locate_nonfinite(model, x, y) with a batch that fails: it names the first "
        "layer, loss or gradient that is not finite, and why.\n"
        f"  2. {_keep(layer)}.\n"
        "  3. A lower learning rate or global_clipnorm=1.0 on the optimizer, and a look for NaN "
        "in the data, if float32 fails too."
    )


def _keep(layer: str | None) -> str:
    if layer is not None:
        return f"tfmp.MixedPrecision(keep_float32=[{layer!r}])"
    # The layer whose gradient is the first offender need not be the one that overflows.
    return "tfmp.MixedPrecision(keep_float32=...) with the layer it names, if it says overflow"


class TelemetryLog:
    """Writes scalars over time to a folder, as JSON lines and for TensorBoard.

    Args:
        log_dir: the folder, which is made if it is missing; `tfmp.jsonl` in it is appended to.
    """

    def __init__(self, log_dir: str | Path) -> None:
        import tensorflow as tf

        self.log_dir = check_folder("log_dir", log_dir)
        self._lines = (self.log_dir / "tfmp.jsonl").open("a", encoding="utf-8")
        self._events = tf.summary.create_file_writer(str(self.log_dir))

    def write(self, step: int, scalars: Mapping[str, float], epoch: int) -> None:
        """Adds one record.

        Args:
            step: the training step that the numbers belong to.
            scalars: the numbers, by name.
            epoch: the epoch of that step, which makes no curve.
        """
        line = plain({"step": step, "epoch": epoch, **scalars})
        with naming(self.log_dir):
            self._lines.write(json.dumps(line, allow_nan=False) + "\n")
            self._lines.flush()
            with self._events.as_default(step=step):
                for name, value in scalars.items():
                    _write_scalar(f"tfmp/{name}", value)
            self._events.flush()

    def close(self) -> None:
        """Closes the files; closing twice is allowed."""
        self._lines.close()
        self._events.close()


def _write_scalar(tag: str, value: float) -> None:
    """Writes the event of tf.summary.scalar, which needs the tensorboard package."""
    import tensorflow as tf

    metadata_of = tf.compat.v1.SummaryMetadata
    # DATA_CLASS_SCALAR of tensorflow/core/framework/summary.proto.
    about = metadata_of(plugin_data=metadata_of.PluginData(plugin_name="scalars"), data_class=1)
    tf.summary.write(tag, tf.constant(value, tf.float32), metadata=about)
