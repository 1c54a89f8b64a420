"""MixedPrecision: a callback that makes `fit` train in mixed precision and reports on it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

import keras

from tfmp.fit.batch_tap import tap_next_execution
from tfmp.fit.early_start import before_callbacks_begin
from tfmp.fit.options import FitOptions
from tfmp.fit.preflight import preflight_findings
from tfmp.fit.report import TrainingReport
from tfmp.fit.session import FitSession
from tfmp.fit.skipped_steps import leave_out_skipped_steps
from tfmp.loss_scaling import (
    LossScale,
    NonFiniteGradientsError,
    StaticLossScale,
    as_loss_scale,
    attach_loss_scale,
    detach_loss_scale,
    interval_for,
    scaled_optimizers,
)
from tfmp.precision import (
    NARROW_DTYPES,
    Pattern,
    PrecisionPlan,
    check_keep,
    check_policy,
    has_call,
    layer_tree,
    policy as policies,
)
from tfmp.precision.layer_tree import has_own_code
from tfmp.shared.arguments import OF_KERAS_2
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.findings import Finding

# Numbers by name, which Keras hands from callback to callback.
Logs: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class _Left:
    """What a `fit` left: one that finds the state as it was makes nothing anew.

    Keras's files look into containers of a model, and not into this.
    """

    state: tuple[object, ...] = (None,)
    plan: PrecisionPlan | None = None
    findings: tuple[Finding, ...] = ()


# The attribute of a model for it, outside Keras's tracking.
_LEFT = "_tfmp_left"


class MixedPrecision(keras.callbacks.Callback):
    """Trains a compiled float32 model in mixed precision, in the `fit` that gets this callback.

        model.fit(x, y, callbacks=[tfmp.MixedPrecision()])

    When training begins, the layers are switched to the plan's dtypes, the optimizer is wrapped in
    a `LossScaleOptimizer` that keeps its moments, and the training function is traced anew. Further
    optimizers in the model's attributes, lists and dicts are wrapped, too. A model
    without weights is built from the first batch. The model stays in mixed precision afterwards, so
    that it can be evaluated, saved and trained further; `tfmp.revert(model)` gives back the float32
    model with the trained weights. The switch comes before any callback's `on_train_begin`, so a
    callback that restores an interrupted run may stand before or after this one.

    A step that is not finite is skipped, and left out of the epoch's loss and metrics. `logs` and
    `History` get the entries `loss_scale`, `skipped_steps`, `underflow` (the estimated share of
    gradient values that FP16 loses) and `gradient_norm` for each epoch.

    Attributes:
        plan: the plan that was applied last; None before the first `fit`.

    Args:
        policy: as in `tfmp.plan`.
        loss_scale: "dynamic", a number (static) or a strategy object. "dynamic" does not change a
            `tfmp.LossScaleOptimizer` that the model was compiled with. Under bfloat16 "dynamic"
            means 1: nothing underflows there, but non-finite steps are still skipped. It also means
            1 for a model whose own `train_step` does not scale the loss.
        keep_float32: as in `tfmp.plan`.
        log_dir: folder for TensorBoard scalars and `tfmp.jsonl`; with None no files are written.
        log_every: "epoch", or a number of steps: how often the counters are read from the device.
            The host waits for the device only at these readings, and after 6, 18, 36, 72, ...
            steps of an epoch.
        on_nonfinite: the reaction to non-finite steps that a lower loss scale does not fix.
            "report" writes their cause into the report; "raise" stops the training with the cause;
            "keep_float32" moves the layer that overflows to float32 and goes on. In the first step
            such layers move whatever this is.
        max_consecutive_skips: largest number of skipped steps in a row; if a reading finds more,
            training stops with an error.
        report: file for the report, written when training ends or stops with an error of this
            package: `.html` is a page with curves, `.json` data, `.md` Markdown.
        keep: as in `tfmp.plan`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that is not allowed.
    """

    def __init__(
        self,
        policy: str = "auto",
        loss_scale: LossScale | float | str = "dynamic",
        keep_float32: Pattern | Iterable[Pattern] = (),
        log_dir: str | Path | None = None,
        log_every: int | str = "epoch",
        on_nonfinite: str = "report",
        max_consecutive_skips: int = 50,
        report: str | Path | None = None,
        keep: Mapping[str, Pattern | Iterable[Pattern]] | None = None,
    ) -> None:
        super().__init__()
        check_policy(policy)
        check_keep(keep)
        as_loss_scale(loss_scale)
        self.policy = policy
        self.loss_scale = loss_scale
        self.keep_float32 = keep_float32
        self.keep = keep
        self.options = FitOptions(log_dir, log_every, on_nonfinite, max_consecutive_skips, report)
        self.plan: PrecisionPlan | None = None
        self._session: FitSession | None = None
        self._last_report: TrainingReport | None = None
        self._take_back_start: Callable[[], None] | None = None
        self._take_back_means: Callable[[], None] | None = None
        self._begun_with: keras.optimizers.Optimizer | None = None
        self._epoch = 0
        self._findings: tuple[Finding, ...] = ()

    @property
    def report(self) -> TrainingReport | None:
        """The `TrainingReport` of the last `fit`, up to its latest reading."""
        return self._session.report() if self._session else self._last_report

    def __getstate__(self) -> dict[str, object]:
        """Arguments, plan and report, for `pickle`; the model and the `fit` stay behind."""
        of_this_fit = ("_session", "_take_back_start", "_take_back_means", "_begun_with", "_model")
        return {**vars(self), **dict.fromkeys(of_this_fit), "_last_report": self.report}

    def _implements_train_batch_hooks(self) -> NoReturn:
        """What the `fit` of Keras 2 asks of a callback before it gives it the model."""
        raise TypeError(f"MixedPrecision expects a model of Keras 3. {OF_KERAS_2}")

    def set_model(self, model: keras.Model) -> None:
        """Takes the model, and begins as soon as `fit` is about to."""
        self._no_early_start()
        super().set_model(model)
        self._take_back_start = before_callbacks_begin(model, self._begin_early)

    def _no_early_start(self) -> None:
        if self._take_back_start is not None:
            self._take_back_start()
        self._take_back_start = None

    def _begin_early(self) -> None:
        self._session = None
        if _waits_for_data(self.model):
            return
        if not self._measures():
            self._begin()
            self._begun_with = self.model.optimizer
        elif all(layer.built for layer in self.model._flatten_layers()):
            # The plan comes with the first batch; a callback may restore the optimizer before.
            attach_loss_scale(self.model, self._scale_for(self._usual_dtype()))

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Applies the plan, wraps the optimizer and has the training function traced anew.

        This has been done where `fit` made its train function and nothing replaced the optimizer
        since.
        """
        self._no_early_start()
        begun_with, self._begun_with = self._begun_with, None
        if begun_with is not None and begun_with is self.model.optimizer:
            return
        self._session = self._last_report = None
        waits = _waits_for_data(self.model)
        is_tapped = (waits or self._measures()) and tap_next_execution(
            self.model, self._build_and_begin
        )
        if not (waits or is_tapped):
            self._begin()

    def _measures(self) -> bool:
        """Whether a new plan runs code of the user's, on numbers like those of the first batch."""
        before: _Left = getattr(self.model, _LEFT, _Left())
        if before.plan is not None and before.state == self._state():
            return False
        nodes = layer_tree.walk(self.model).within()
        return self._usual_dtype() in NARROW_DTYPES and any(map(has_own_code, nodes))

    def _usual_dtype(self) -> str:
        return keras.dtype_policies.get(policies.resolve_policy(self.policy).policy).compute_dtype

    def _build_and_begin(self, batches: list[TensorTree]) -> None:
        _build_from(self.model, batches[0])
        self._begin_late(keras.utils.unpack_x_y_sample_weight(batches[0])[0])

    def _begin_late(self, data: TensorTree = None) -> None:
        """Begins within an epoch, unless it has begun or the model still has no weights."""
        if self._session is None and policies.is_built(self.model, wholly=False):
            self._begin(data).epoch_began(self._epoch)

    def _begin(self, data: TensorTree = None) -> FitSession:
        model = self.model
        before: _Left = getattr(model, _LEFT, _Left())
        object.__setattr__(model, _LEFT, _Left())
        if before.plan is not None and before.state == self._state():
            plan, findings = before.plan, before.findings
        else:
            plan = policies.plan(model, self.policy, self.keep_float32, self.keep, data)
            findings = self._apply(model, plan)
        self.plan = plan
        if self._take_back_means is not None:
            self._take_back_means()
        if plan.narrow_dtypes:
            self._take_back_means = leave_out_skipped_steps(model)
        if before.plan is None or model.train_function is not before.state[0]:
            # `fit` made its training function before it called this.
            model.make_train_function(force=True)
        self._findings = findings
        verbose = bool((self.params or {}).get("verbose"))
        self._session = FitSession(model, plan, self.options, verbose)
        self._session.recorder.tell(findings)
        return self._session

    def _apply(self, model: keras.Model, plan: PrecisionPlan) -> tuple[Finding, ...]:
        """Applies a plan and its loss scale; returns what was found before."""
        findings = preflight_findings(model, plan)
        plan.apply()
        narrow = plan.narrow_dtypes
        if not narrow:
            detach_loss_scale(model)
            return findings
        scale = StaticLossScale(1.0) if plan.unscalable else self._scale_for(*narrow)
        attach_loss_scale(model, scale)
        for optimizer in scaled_optimizers(model):
            optimizer.watch_scale_loss()
            optimizer.measure_from_now(self._steps_of_fit())
        return findings

    def _state(self) -> tuple[object, ...]:
        """All that a plan and a training function depend on, as it is now.

        Keras drops the function where a model is compiled anew. It has the steps between
        measurements of gradients in it.
        """
        model = self.model
        asked = (self.policy, self.loss_scale, self.keep_float32, self.keep)
        every = interval_for(self._steps_of_fit())
        layers = [(layer, layer.dtype_policy, layer.trainable) for layer in model._flatten_layers()]
        return model.train_function, model.optimizer, asked, every, layers

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Starts the clock."""
        self._epoch = epoch
        if self._session:
            self._session.epoch_began(epoch)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Reads the counters if a reading is due.

        This happens at the beginning of a batch rather than at its end: Keras waits for the device
        at the end of a batch if any callback has work there.
        """
        if batch:
            self._begin_late()  # for data that could not be looked at
        if self._session:
            with self._reported():
                self._session.step_begins(batch)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Stops the clock while `fit` validates."""
        self._no_early_start()  # `evaluate` got this callback
        if self._session:
            self._session.recorder.pause()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Adds the loss scale and the steps skipped in this epoch to the logs."""
        self._begin_late()
        if self._session:
            with self._reported():
                added = self._session.epoch_ended(logs or {})
            if logs is not None:
                logs.update(added)

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Does nothing: `predict` runs the model as it is."""
        self._no_early_start()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Closes the files and prints the summary."""
        if self._take_back_means is not None:
            self._take_back_means()
        if self._session:
            self._session.ended()
            self._last_report, self._session = self._session.report(), None
            if self.plan and self._last_report.steps and not self._last_report.events:
                left = _Left(self._state(), self.plan, self._findings)
                object.__setattr__(self.model, _LEFT, left)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Writes the report before an error goes on: Keras ends the training without a call."""
        try:
            yield
        except NonFiniteGradientsError:
            if self._session:
                self._session.save_report()
            raise

    def _steps_of_fit(self) -> int | None:
        steps, epochs = (self.params.get(name) for name in ("steps", "epochs"))
        return steps * epochs if steps and epochs else None

    def _scale_for(self, *narrow: str) -> LossScale | float | str:
        if narrow == ("bfloat16",) and self.loss_scale == "dynamic":
            return StaticLossScale(1.0)
        return self.loss_scale


def _waits_for_data(model: keras.Model) -> bool:
    """Whether the first batch has to tell the sizes that the model takes, as `fit` allows it."""
    if not has_call(model):
        return not policies.is_built(model)
    return not policies.is_built(model) or not (
        getattr(model, "inputs", None) or model._build_shapes_dict
    )


def _build_from(model: keras.Model, batch: TensorTree) -> None:
    """Makes the weights of a model that takes batches like this one."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
    if policies.is_built(model):
        # It calls itself built, and Keras never noted the sizes; the plan builds what lacks.
        if all(value is not None for value in keras.tree.flatten(x)):
            shapes = keras.tree.map_structure(lambda value: (None, *value.shape[1:]), x)
            model._build_shapes_dict = {"input_shape": shapes}
        return

    def of_any_size(value: Tensor | None) -> keras.KerasTensor | None:
        if value is None:
            return None
        dtype = keras.backend.standardize_dtype(value.dtype)
        return keras.KerasTensor((None, *value.shape[1:]), dtype)

    try:
        if not has_call(model):
            raise NotImplementedError(f"Model {model.name!r} has no call")  # Keras calls it built
        model._symbolic_build(data_batch=keras.tree.map_structure(of_any_size, batch))
    except Exception:
        # Keras leaves models that take no symbolic tensors, but ragged ones, and those that a
        # `train_step` calls on other inputs, to their first step.
        with suppress(Exception):
            if has_call(model):
                model(x)
        if not policies.is_built(model) and not current_backend().is_stateless:
            with suppress(Exception):
                current_backend().trace_step(model, batch)
        if not policies.is_built(model, wholly=False):  # a step may leave parts uncalled
            raise
