"""NonFiniteWatch: finds and handles the cause of non-finite steps that no loss scale fixes."""

from pathlib import Path

import keras

from tfmp.fit.batch_tap import tap_next_execution
from tfmp.fit.failing_batch import save_failing_batch
from tfmp.fit.recorder import FitRecorder
from tfmp.loss_scaling import (
    DynamicLossScale,
    LossScale,
    NonFiniteGradientsError,
    StepCounters,
    scaled_optimizers,
    without_bound,
)
from tfmp.nonfinite import NonFinite, locate_nonfinite
from tfmp.precision import LayerNode, layer_tree, reverting
from tfmp.shared.backend import TensorTree
from tfmp.shared.wording import first_line

ON_NONFINITE = ("report", "raise", "keep_float32")

# Causes that `locate_nonfinite` names and that a wider range removes.
FIXED_BY_FLOAT32 = ("overflow", "loss scale")

# Backing off ten times in a row takes a scale down by a factor of 1,024: more than the spread of
# gradients within an epoch that one scale has to serve.
PATIENCE = 10

# A well-chosen scale skips one step in `growth_interval`; one in twenty is more than probing.
ODD_SHARE = 0.05

# The end of an epoch is not waited for: from 2**15 to its lowest bound a dynamic scale takes 5
# steps, or 15 after a step that was applied. Later looks come after twice as many steps each.
EARLY_STEPS = (PATIENCE, 18)
_EARLY_FINITE = 2

# Gradients that still rise make a scale fall a second time after finite steps, hardly a third.
ODD_READINGS = 2

# So many executions are searched for a batch that fails again, before the search is given up.
LONGEST_SEARCH = 200


class NonFiniteStepError(NonFiniteGradientsError):
    """Steps were not finite for a reason that a lower loss scale does not fix."""

    def __init__(self, counters: StepCounters, reason: str, cause: str) -> None:
        self.counters = counters
        self.limit = 0
        RuntimeError.__init__(
            self,
            f"Training stopped, as on_nonfinite='raise' asks: {reason}. {cause} The weights are as "
            "they were after the last finite step. Try tfmp.locate_nonfinite(model, x, y), or "
            "tfmp.MixedPrecision(on_nonfinite='keep_float32'), which moves layers that overflow to "
            "float32.",
        )


class NonFiniteWatch:
    """Judges the readings of the counters during one `fit`.

    When steps stay non-finite although the scale backs off, the batches of the next executions are
    held until one of them fails. That batch is replayed to find the first non-finite value.

    Attributes:
        found: that value, of the latest replay that no lower scale fixes; None before it.
    """

    def __init__(
        self,
        model: keras.Model,
        recorder: FitRecorder,
        on_nonfinite: str,
        limit: int,
        save_failing: str | Path | None = None,
    ) -> None:
        self._model = model
        self._recorder = recorder
        self._mode = on_nonfinite
        self._limit = limit
        self._save_failing = save_failing
        # Readings with skips that began anew although the scale had not grown: how many, the steps
        # skipped in them, and all their steps.
        self._anew = (0, 0, 0)
        self._growths_when_skipped = 0
        self._searches_left = 0
        self._reason = ""
        self._may_be_backoff = False
        self._held: list[TensorTree] = []
        self._skipped_when_held = 0
        self._scale_when_held = 1.0
        self._explained = False
        self._cause = ""
        self.found: NonFinite | None = None
        self._fixed_at: StepCounters | None = None
        self._falls = False

    def look(self, before: StepCounters, now: StepCounters, whole_epoch_skipped: bool) -> None:
        """Judges the steps between two readings.

        Raises:
            NonFiniteGradientsError: too many steps in a row were skipped, and there is no remedy
                left to try.
        """
        if self._searches_left:
            return
        if self._falls and now.consecutive_skips == 0:
            self._falls, self._fixed_at = False, now  # the skips until here were its way down
        if self._fixed_at is not None and self._fixed_at.steps > before.steps:
            before = self._fixed_at  # the cause of the steps skipped until then is gone
        reason = beyond_backoff(before, now, self._strategy(), whole_epoch_skipped)
        self._may_be_backoff = reason is not None and self._few_skips(before, now)
        reason = reason or self._skips_that_come_back(before, now)
        if reason is not None and not self._explained and self._search(reason, now):
            return
        self._check_limit(now)

    def look_early(self) -> None:
        """Judges the steps within an epoch: it need not end before the cause is found."""
        now = self._recorder.peek()
        skipped, steps = self._recorder.since_start(now)
        strategy = self._strategy()
        is_lowest = not isinstance(strategy, DynamicLossScale) or (
            now.loss_scale <= strategy.min_scale
        )
        in_a_row = min(skipped, now.consecutive_skips)
        few_finite = skipped and is_lowest and skipped >= steps - _EARLY_FINITE
        if self._searches_left or not (in_a_row >= PATIENCE or few_finite):
            return
        many = f"{skipped} of the first {steps} steps were not finite"
        reason = f"{many}, down to loss scale {now.loss_scale:g}"
        if self._explained or not self._search(reason, now):
            self._check_limit(now)

    def _search(self, reason: str, now: StepCounters) -> bool:
        """Begins to hold batches until one fails; whether there are any to hold."""
        self._reason = reason
        self._searches_left = LONGEST_SEARCH
        if self._hold_next(now):
            return True
        self._search_failed(now, "The data is on several machines, so no batch is replayed.")
        return False

    def _skips_that_come_back(self, before: StepCounters, now: StepCounters) -> str | None:
        """Why skips between many readings are no search for the scale; None if they may be.

        A scale that was low enough stays so until it grows. A bad row skips a step in each epoch,
        however short the epochs are.
        """
        skipped, steps = now.skipped_steps - before.skipped_steps, now.steps - before.steps
        if not skipped:
            return None
        grown = now.growths - self._growths_when_skipped
        self._growths_when_skipped = now.growths
        began = before.finite_streak > 0 or 0 < now.consecutive_skips < steps
        if not began or grown or skipped <= ODD_SHARE * steps:
            return None
        self._anew = (self._anew[0] + 1, self._anew[1] + skipped, self._anew[2] + steps)
        readings, skipped, steps = self._anew
        if readings < ODD_READINGS:
            return None
        return f"{skipped} of {steps} steps were not finite, though the loss scale had not grown"

    def _few_skips(self, before: StepCounters, now: StepCounters) -> bool:
        """Whether the steps skipped between two readings, all of a short epoch, may have had no
        other cause than a dynamic scale on its way down."""
        strategy = self._strategy()
        return (
            isinstance(strategy, DynamicLossScale)
            and now.loss_scale > strategy.min_scale
            and now.skipped_steps - before.skipped_steps < PATIENCE
            and before.finite_streak == 0
        )

    def before_step(self) -> None:
        """Judges the held batches, if there are any; called when the device can be read."""
        if not self._held:
            return
        batches, self._held = self._held, []
        now = self._recorder.peek()
        if now.skipped_steps > self._skipped_when_held:
            self._searches_left = 0
            self._handle(now, batches)
            return
        self._searches_left -= 1
        if self._may_be_backoff and now.consecutive_skips == 0:
            self._searches_left = 0  # the scale has found its place
            return
        if not self._searches_left or not self._hold_next(now):
            self._search_failed(now, "No batch has failed since.")

    def finish(self) -> None:
        """Ends the watch with the `fit`: an open search is reported or raised now."""
        self.before_step()
        if self._searches_left:
            self._search_failed(self._recorder.peek(), "Training ended before it happened again.")
            self._check_limit(self._recorder.peek())

    def _hold_next(self, now: StepCounters) -> bool:
        self._skipped_when_held = now.skipped_steps
        self._scale_when_held = now.loss_scale
        return tap_next_execution(self._model, self._hold)

    def _hold(self, batches: list[TensorTree]) -> None:
        self._held = batches

    def _handle(self, now: StepCounters, batches: list[TensorTree]) -> None:
        try:
            found, batch = locate_in(self._model, batches, self._scale_when_held)
            cause = f"{found}" if found else "Replaying the batch gave finite numbers."
        except Exception as error:
            # A train_step of the user's own may use no loss and no call that can be replayed.
            found, batch = None, batches[0]
            cause = f"The batch could not be replayed: {first_line(error)}"
        if found is not None and self._backing_off_will_do(found):
            self._anew = (0, 0, 0)
            return
        lower = self._let_scale_fall(found, now)
        if lower is not None:
            self._falls, self._anew = True, (0, 0, 0)
            self._note(f"{cause} It goes on from {lower:g}, and may fall lower.", now)
            return
        self.found = found
        cause += self._saved(batch)
        moved = self._move_to_float32(found, batch) if self._mode == "keep_float32" else ()
        if moved:
            self._fixed_at, self._anew = now, (0, 0, 0)
            self._note(f"{cause} Moved to float32: {', '.join(moved)}.", now)
            return
        self._search_failed(now, cause)
        self._check_limit(now)

    def _saved(self, batch: TensorTree) -> str:
        """Saves the failing batch if that was asked for; a sentence about it."""
        if self._save_failing is None:
            return ""
        try:
            script = save_failing_batch(
                self._save_failing, self._model, batch, self._scale_when_held
            )
        except Exception as error:
            # A full disk, or a model that Keras cannot save, is no reason to end the training.
            return f" The batch could not be saved: {first_line(error)}."
        return f" Replay it: python {script}."

    def _backing_off_will_do(self, found: NonFinite) -> bool:
        """Whether the scale is still on its way down to one that will do."""
        strategy = self._strategy()
        return (
            found.cause == "loss scale"
            and isinstance(strategy, DynamicLossScale)
            and self._scale_when_held > strategy.min_scale
        )

    def _let_scale_fall(self, found: NonFinite | None, now: StepCounters) -> float | None:
        """Takes the bound away from a dynamic scale that proved too high, unless the user set it.

        One odd batch is no proof: a scale that serves it would lose the gradients of the others.
        The scale that this batch needs is returned, and set.
        """
        if found is None or found.finite_at is None or now.consecutive_skips < PATIENCE:
            return None
        bound = {
            optimizer: freed
            for optimizer in scaled_optimizers(self._model)
            if (freed := without_bound(optimizer.loss_scale)) != optimizer.loss_scale
        }
        for optimizer, freed in bound.items():
            optimizer.loss_scale = freed
            if optimizer.built:
                optimizer.scale_variable.assign(found.finite_at)
        if bound:
            reverting.trace_anew(self._model)
        return found.finite_at if bound else None

    def _strategy(self) -> LossScale:
        """The strategy of all optimizers of the model."""
        return scaled_optimizers(self._model)[0].loss_scale

    def _search_failed(self, now: StepCounters, cause: str) -> None:
        """Ends the search: the cause goes into the report, or is raised."""
        self._searches_left = 0
        self._explained, self._cause = True, cause
        self._note(cause, now)
        if self._mode == "raise":
            raise NonFiniteStepError(now, self._reason, cause)

    def _note(self, text: str, now: StepCounters) -> None:
        self._recorder.note(f"{self._reason}. {text}", now.steps)

    def _check_limit(self, now: StepCounters) -> None:
        if now.consecutive_skips > self._limit:
            head = _overflowing(self._model, self.found) if self.found is not None else None
            layer = head.path if head is not None and head.path != layer_tree.ROOT else None
            raise NonFiniteGradientsError(now, self._limit, self._cause, layer)

    def _move_to_float32(self, found: NonFinite | None, batch: TensorTree) -> tuple[str, ...]:
        """Makes the layers that overflow on a batch compute in float32 from the next step on."""
        moved: list[str] = []
        while found and (path := move_to_float32(self._model, found)) is not None:
            moved.append(path)
            # The layers before it get the same gradients.
            found = locate_in(self._model, [batch], 1.0)[0] if found.is_steep else None
        if not moved:
            return ()
        self._model.make_train_function(force=True)
        for optimizer in scaled_optimizers(self._model):
            if optimizer.built:
                # The overflow that is fixed now had driven it down.
                optimizer.scale_variable.assign(optimizer.loss_scale.initial)
        return tuple(moved)


def move_to_float32(model: keras.Model, found: NonFinite) -> str | None:
    """Switches the layer that a finding names, if that fixes it; returns its path.

    The model's functions have to be traced anew.
    """
    head = _overflowing(model, found)
    if head is None:
        return None
    reverting.move_to_float32(model, _in_float16(head))
    return head.path


def _overflowing(model: keras.Model, found: NonFinite) -> LayerNode | None:
    """The float16 layer that a finding names, if float32 fixes it."""
    if found.cause not in FIXED_BY_FLOAT32:
        return None
    nodes = {node.path: node for node in layer_tree.walk(model).within()}
    node = nodes.get(found.layer or layer_tree.ROOT)
    head = node and (node.head or node)
    return head if head and _in_float16(head) else None


def _in_float16(head: LayerNode) -> list[keras.layers.Layer]:
    return [part.layer for part in head.unit() if part.layer.compute_dtype == "float16"]


def beyond_backoff(
    before: StepCounters, now: StepCounters, strategy: LossScale, whole_epoch_skipped: bool
) -> str | None:
    """Why the loss scale did not cause the steps skipped between two readings; None if it did.

    A dynamic scale finds its place by skipping: a few steps at the start, and one now and then
    after it has grown. This is no fault.
    """
    skipped = now.skipped_steps - before.skipped_steps
    steps = now.steps - before.steps
    if skipped <= 0:
        return None
    if not isinstance(strategy, DynamicLossScale):
        return f"{skipped} of {steps} steps were not finite at loss scale {now.loss_scale:g}"
    if now.loss_scale <= strategy.min_scale and skipped > now.backoffs - before.backoffs:
        return f"steps were not finite even at the lowest loss scale, {now.loss_scale:g}"
    if now.consecutive_skips >= PATIENCE:
        return (
            f"{now.consecutive_skips} steps in a row were not finite, "
            f"down to loss scale {now.loss_scale:g}"
        )
    if whole_epoch_skipped:
        return f"not one of {steps} steps was finite, down to loss scale {now.loss_scale:g}"
    if skipped >= PATIENCE and skipped / steps > ODD_SHARE:
        return f"{skipped} of {steps} steps were not finite"
    return None


def locate_in(
    model: keras.Model, batches: list[TensorTree], loss_scale: float
) -> tuple[NonFinite | None, TensorTree]:
    """The first non-finite value, or None if all values are finite, and the batch it comes from."""
    for batch in batches:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        found = locate_nonfinite(model, x, y, sample_weight, loss_scale)
        if found:
            return found, batch
    return None, batches[0]
