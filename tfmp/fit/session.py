"""FitSession: one `fit` in mixed precision, from its first step to its summary."""

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace

import keras

from tfmp.fit.batch_tap import tap_next_execution
from tfmp.fit.large_inputs import widen_readers
from tfmp.fit.nonfinite_watch import EARLY_STEPS, NonFiniteWatch
from tfmp.fit.options import FitOptions
from tfmp.fit.preflight import (
    UNSCALED_STEP,
    not_finite_data,
    unscaled_step,
)
from tfmp.fit.recorder import FitRecorder
from tfmp.fit.report import TrainingReport
from tfmp.fit.scale_watch import ScaleWatch
from tfmp.loss_scaling import (
    StaticLossScale,
    TelemetryLog,
    attach_loss_scale,
    check_losses_arrived,
    has_own_step,
    scaled_optimizers,
)
from tfmp.precision import PrecisionPlan, reverting
from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.findings import Finding

# Halving takes the usual scale to its lowest in so many steps.
_MOST_REPEATS = 16

_FAILURE = (
    "tfmp: the first step failed under the plan {policy}; no weight has changed. If it does not "
    "fail after tfmp.revert(model), code of the model mixes 16-bit and float32 tensors. Keep the "
    "layer that the error names in float32: tfmp.MixedPrecision(keep_float32=['name']). Or cast in "
    "that code: keras.ops.cast(x, y.dtype)."
)


class FitSession:
    """The work of `MixedPrecision` while `fit` runs, on a model that has its plan applied.

    Args:
        model: a model in `fit`, with a new training function.
        plan: the applied plan.
        options: of the callback.
        verbose: whether findings and the summary are printed.
    """

    def __init__(
        self,
        model: keras.Model,
        plan: PrecisionPlan,
        options: FitOptions,
        verbose: bool,
    ) -> None:
        self._model = model
        self._plan = plan
        self._options = options
        self._verbose = verbose
        self._had_data = False
        self._last_read_batch = 0
        self._next_look = EARLY_STEPS[0]
        self._first_batches: list[TensorTree] = []
        self._tried: list[float] = []
        self.recorder = FitRecorder(model, plan, self.say)
        self._watch = NonFiniteWatch(model, self.recorder, options)
        self._scale_watch = None
        if plan.policy == "mixed_float16" and plan.narrow_dtypes:
            self._scale_watch = ScaleWatch(model, self.recorder)
        self._log: TelemetryLog | None = None
        if options.log_dir is not None and _writes_files(model):
            self._log = TelemetryLog(options.log_dir)
        self.say(f"tfmp: {plan.policy} ({plan.reason})")
        if plan.narrow_dtypes:
            note = _FAILURE.format(policy=plan.policy)
            tap_next_execution(model, self._look_at_inputs, note, self._is_first_step_repeated)

    def report(self) -> TrainingReport:
        """The report up to the latest reading."""
        return self.recorder.report()

    def epoch_began(self, epoch: int) -> None:
        """Starts the clock."""
        self._last_read_batch = 0
        self._next_look = EARLY_STEPS[0]
        self.recorder.epoch_began(epoch)

    def step_begins(self, batch: int) -> None:
        """Reads the counters if a reading is due."""
        self._fix_unscaled_step()
        self._watch.before_step()
        if batch >= self._next_look and self._plan.narrow_dtypes:
            self._next_look = EARLY_STEPS[1] if batch < EARLY_STEPS[1] else 2 * batch
            self._watch.look(early=True)
        every = self._options.log_every
        if every != "epoch" and batch - self._last_read_batch >= int(every):
            self._last_read_batch = batch
            self._read(epoch_over=False)

    def epoch_ended(self, logs: Mapping[str, object]) -> dict[str, float]:
        """Reads the counters; returns the entries for the epoch's logs.

        Means over no step are NaN among them: Keras makes 0 of them, the best of all losses.
        """
        self.recorder.pause()
        self._fix_unscaled_step()
        self._watch.before_step()
        try:
            self._had_data |= bool(logs)
            self._read(epoch_over=True)
        finally:
            added = self.recorder.epoch_logs()
            if (
                logs.get("loss") == 0
                and added["skipped_steps"] == self.recorder.since("epoch").steps
            ):
                added |= {name: math.nan for name in logs if not name.startswith("val_")}
            self.recorder.add_curves({**logs, **added})
        return added

    def ended(self) -> None:
        """Closes the files, ends the watch for non-finite steps, and prints the summary."""
        if self._log is not None:
            self._log.close()
        try:
            self._watch.finish()
        finally:
            self.recorder.end()
            self._tell_of_no_step()
            self.say(str(self.report()))
            self.save_report()

    def _tell_of_no_step(self) -> None:
        report = self.report()
        if self.recorder.is_scaled and self._had_data and not report.steps:
            if self._model.trainable_variables:
                self.recorder.tell([_idle(self._model)])
            return
        if not report.steps or report.skipped_steps < report.steps:
            return
        skipped = f"No step of {report.steps} was applied: no weight has changed"
        fix = "Pass loss_scale='dynamic', which falls until steps are applied"
        reached = report.loss_scales[-1].loss_scale
        found = self._watch.found
        if found and found.cause != "loss scale":
            skipped += f". {found.what}: {found.why}" if found.why else f". {found.what}"
            fix = found.advice.rstrip(".")
        elif reached <= 1:
            fix = (
                "A lower scale does not help. Look for the cause with a batch: "
                "tfmp.locate_nonfinite(model, x, y)"
            )
        self.recorder.tell([Finding("no step", "problem", skipped, fix)])

    def save_report(self) -> None:
        """Writes the report to its file if there is one."""
        if self._options.report is None or not _writes_files(self._model):
            return
        try:
            self.say(f"tfmp: report in {self.report().save(self._options.report)}")
        except ValueError as error:  # a full disk is no reason to lose a training
            sys.stderr.write(f"tfmp: {error}\n")

    def say(self, text: str) -> None:
        """Prints a line on stdout, as `fit` does."""
        if self._verbose:
            sys.stdout.write(text + "\n")

    # --- around the first step ---

    def _look_at_inputs(self, batches: list[TensorTree]) -> None:
        """Looks at the batches of the first execution, before it trains on them."""
        self._first_batches = batches
        self._trace_own_step(batches[0])
        self._fix_unscaled_step()
        if self._scale_watch is not None:
            self._scale_watch.hold(batches[0])
        self.recorder.tell(not_finite_data(batches[0]))
        notes = widen_readers(self._model, self._plan, batches[0])
        if notes:
            self._model.make_train_function(force=True)
        for note in notes:
            self.recorder.note(note)

    def _is_first_step_repeated(self) -> bool:
        """Whether `fit` takes the first step again: it was skipped, and the loss scale fell.

        So the gradients of the first batch choose the scale, and no batch is lost. Where no usual
        scale makes them finite, layers that overflow go to float32, or the scale may fall further.
        If neither helps, a half of the batch chooses the scale for the others.
        """
        recorder, tried = self.recorder, self._tried
        now = recorder.peek()
        taken = recorder.since("start", now=now)
        is_skipped = 0 < taken.skipped_steps == taken.steps
        if is_skipped and taken.backoffs and len(tried) < _MOST_REPEATS:
            tried.append(now.loss_scale)
        elif is_skipped and self._watch.mends_first_step(self._first_batches, now):
            tried.clear()
        else:
            if is_skipped and tried:
                scale = self._watch.scale_for_others(self._first_batches, tried[0])
                for optimizer in self.recorder.optimizers:
                    optimizer.scale_variable.assign(max(scale, optimizer.loss_scale.floor))
                recorder.start_counting(replace(recorder.latest().counters, loss_scale=scale))
            self._first_batches = []
            return False
        recorder.start_counting(recorder.peek())
        self._model.reset_metrics()
        return True

    def _trace_own_step(self, batch: TensorTree) -> None:
        """Traces a train_step of the user's own: its optimizers note whether it scales its losses.

        Nothing is computed. A step that fails, or runs eagerly and may hold tensors, is for `fit`.
        """
        is_known = all(one.loss_was_scaled is not None for one in self.recorder.optimizers)
        is_eager = self._model.run_eagerly and not current_backend().is_stateless
        if is_known or is_eager or not has_own_step(self._model):
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `fit` gives the step its scale
                current_backend().trace_step(self._model, batch)
        except Exception:
            for optimizer in self.recorder.optimizers:
                optimizer.watch_scale_loss()

    def _fix_unscaled_step(self) -> None:
        """Takes the loss scale away from a step that did not use it when it was traced."""
        if not self._model.trainable_variables:
            return  # Keras scales the loss, and applies nothing
        check_losses_arrived(self.recorder.optimizers)
        unscaled = [one.held_as for one in self.recorder.optimizers if one.loss_was_scaled is False]
        if not unscaled:
            return
        if not self.recorder.knows(UNSCALED_STEP):
            if any(one.loss_scale != StaticLossScale(1.0) for one in self.recorder.optimizers):
                if hasattr(self._model, "jax_state_sync"):
                    self._model.jax_state_sync()  # `fit` holds the optimizer's values between steps
                attach_loss_scale(self._model, StaticLossScale(1.0))
                self.recorder.optimizers = scaled_optimizers(self._model)
                reverting.trace_anew(self._model)
            self.recorder.start_counting()
            self.recorder.tell([unscaled_step(self._model, unscaled)])

    # --- readings ---

    def _read(self, epoch_over: bool) -> None:
        recorder = self.recorder
        recorder.read()
        if epoch_over:
            recorder.epoch_ended()
        health = recorder.health()
        if self._log is not None:
            steps, scalars = recorder.scalars()
            self._log.write(steps, scalars, epoch=recorder.epoch)
        if self._scale_watch is not None and health is not None:
            self._scale_watch.look(health)
        if recorder.is_scaled:
            self._watch.look()


def _idle(model: keras.Model) -> Finding:
    """The step of a model with code of its own may apply gradients with other optimizers."""
    return Finding(
        "optimizer without a step",
        "problem",
        f"{type(model).__name__}.train_step took no step with an optimizer that tfmp found: "
        "nothing scales its loss, and its steps are neither counted nor checked",
        "Keep its optimizers in attributes, lists, tuples or dicts of the model",
    )


def _writes_files(model: keras.Model) -> bool:
    """Whether this process writes the logs; of several workers only one does."""
    strategy = getattr(model, "distribute_strategy", None)
    return strategy is None or strategy.extended.should_save_summary
