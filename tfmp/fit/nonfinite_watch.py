"""NonFiniteWatch: finds and handles the cause of non-finite steps that no loss scale fixes.

    state      what happens                                          next
    WATCHING   steps are skipped for more than a falling scale       SEARCHING
    SEARCHING  a held batch fails, and the scale still falls         WATCHING, repaired
    SEARCHING  it fails, and the scale's usual bound is too high     WATCHING, repaired
    SEARCHING  it fails, and layers move to float32                  WATCHING, repaired
    SEARCHING  it fails otherwise; no batch fails or can be held     TOLD, or the end with "raise"

What was skipped before a repair no longer counts. After a reading or look outside of SEARCHING,
more skips in a row than allowed end the training.
"""

from dataclasses import replace
from enum import Enum
from functools import partial

import keras

from tfmp.fit.batch_tap import tap_next_execution
from tfmp.fit.options import FitOptions
from tfmp.fit.recorder import FitRecorder
from tfmp.loss_scaling import (
    DynamicLossScale,
    LossScale,
    NonFiniteGradientsError,
    StepCounters,
    without_bound,
)
from tfmp.nonfinite import NonFinite, locate_nonfinite
from tfmp.precision import LayerNode, layer_tree, reverting
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.wording import first_line

# Backing off ten times in a row takes a scale down by a factor of 1,024: more than the spread of
# gradients within an epoch that one scale has to serve.
PATIENCE = 10

# A well-chosen scale skips one step in `growth_interval`; one in twenty is more than probing.
ODD_SHARE = 0.05

# The end of an epoch is not waited for: from 2**15 to its lowest bound a dynamic scale takes 5
# steps, or 15 after a step that was applied. Later looks come after twice as many steps each.
EARLY_STEPS = (6, 18)

# So many executions are searched for a batch that fails again, before the search is given up.
LONGEST_SEARCH = 200


class _State(Enum):
    WATCHING, SEARCHING, TOLD = range(3)


class NonFiniteWatch:
    """Judges the readings of one `fit`; a batch that fails is replayed for its first bad value.

    Attributes:
        found: that value, of the latest replay that no lower scale fixes; None before it.
    """

    def __init__(self, model: keras.Model, recorder: FitRecorder, options: FitOptions) -> None:
        self._model = model
        self._recorder = recorder
        self._options = options
        self._state = _State.WATCHING
        self._reason = self._cause = ""
        self._searches_left = 0
        self._held: list[TensorTree] = []
        self._when_held: StepCounters | None = None
        self.found: NonFinite | None = None

    def look(self, early: bool = False) -> None:
        """Judges the latest reading; an epoch need not end before the cause of skips is found.

        Args:
            early: judges the steps since that reading, within an epoch.

        Raises:
            NonFiniteGradientsError: too many steps in a row were skipped, and there is no remedy
                left to try.
        """
        if self._state is _State.SEARCHING:
            return
        recorder = self._recorder
        now = recorder.peek() if early else recorder.counters
        seen = recorder.latest("reading").since
        if early:
            seen = recorder.since("reading", "repair", now=now)
        every = recorder.since("repair", now=now)  # a bad row skips a step in each short epoch
        reasons = (
            beyond_backoff(steps, every.consecutive_skips, self._strategy())
            for steps in (seen, every)
        )
        reason = next(filter(None, reasons), None)
        if reason and self._state is _State.WATCHING:
            self._state, self._reason = _State.SEARCHING, reason
            self._searches_left = LONGEST_SEARCH
            if not self._hold_next(now):
                self._tell(now, "The data is on several machines, so no batch is replayed.")
        if self._state is not _State.SEARCHING:
            self._check_limit(now)

    def before_step(self) -> None:
        """Judges the held batches, if there are any; called when the device can be read."""
        if not self._held or self._when_held is None:
            return
        batches, self._held = self._held, []
        now = self._recorder.peek()
        if now.skipped_steps > self._when_held.skipped_steps:
            self._handle(now, batches, self._when_held.loss_scale)
            return
        self._searches_left -= 1
        if not self._searches_left or not self._hold_next(now):
            self._tell(now, "No batch has failed since.")

    def finish(self) -> None:
        """Ends the watch with the `fit`: an open search is reported or raised now."""
        self.before_step()
        if self._state is _State.SEARCHING:
            now = self._recorder.peek()
            self._tell(now, "Training ended before it happened again.")
            self._check_limit(now)

    def _hold_next(self, now: StepCounters) -> bool:
        self._when_held = now
        return tap_next_execution(self._model, self._hold)

    def _hold(self, batches: list[TensorTree]) -> None:
        self._held = batches

    def _handle(self, now: StepCounters, batches: list[TensorTree], scale: float) -> None:
        try:
            found, batch = locate_in(self._model, batches, scale)
            cause = f"{found}" if found else "Replaying the batch gave finite numbers."
        except Exception as error:
            # A train_step of the user's own may use no loss and no call that can be replayed.
            found, batch = None, batches[0]
            cause = f"The batch could not be replayed: {first_line(error)}"
        strategy = self._strategy()
        falls = isinstance(strategy, DynamicLossScale) and scale > strategy.min_scale
        if found is not None and found.cause == "loss scale" and falls:
            self._repaired(now)
            return
        if found is not None and self._let_scale_fall(found, batch, now):
            return
        self.found = found
        moved = (
            self._move_to_float32(found, batch)
            if self._options.on_nonfinite == "keep_float32"
            else ()
        )
        if moved:
            self._repaired(now, f"{cause} Moved to float32: {', '.join(moved)}.")
            return
        self._tell(now, cause)
        self._check_limit(now)

    def _repaired(self, now: StepCounters, text: str = "", step: int | None = None) -> None:
        self._state = _State.WATCHING
        self._recorder.repaired(now)
        if text:
            self._recorder.note(f"{self._reason}. {text}", step or now.steps)

    def _tell(self, now: StepCounters, cause: str) -> None:
        """Ends the search: the cause goes into the report, or is raised."""
        self._state, self._cause = _State.TOLD, cause
        self._recorder.note(f"{self._reason}. {cause}", now.steps)
        if self._options.on_nonfinite == "raise":
            raise self._error(now, self._reason)

    def _check_limit(self, now: StepCounters) -> None:
        run = self._recorder.since(now=now).consecutive_skips
        if run > self._options.max_consecutive_skips:
            raise self._error(now)

    def _error(self, now: StepCounters, reason: str = "") -> NonFiniteGradientsError:
        head = _overflowing(self._model, self.found) if self.found is not None else None
        layer = head.path if head is not None and head.path != layer_tree.ROOT else None
        limit = self._options.max_consecutive_skips
        return NonFiniteGradientsError(now, limit, self._cause, layer, reason)

    def _let_scale_fall(
        self, found: NonFinite, batch: TensorTree, now: StepCounters, step: int | None = None
    ) -> bool:
        """Takes the bound away from a dynamic scale that proved too high, unless the user set it.

        The scale becomes the one that the batch needs. One odd row is no proof: a scale that serves
        it would lose the gradients of the others. Several steps in a row are one, unless they are
        the first step again, and both halves of a batch are.
        """
        if found.finite_at is None:
            return False
        if step is not None or now.consecutive_skips < EARLY_STEPS[0]:
            serves = self.scale_for_others([batch], now.loss_scale)
            if serves >= now.loss_scale:
                return False
        bound = {
            optimizer: freed
            for optimizer in self._recorder.optimizers
            if (freed := without_bound(optimizer.loss_scale)) != optimizer.loss_scale
        }
        for optimizer, freed in bound.items():
            optimizer.loss_scale = freed
            if optimizer.built:
                optimizer.scale_variable.assign(found.finite_at)
        if bound:
            reverting.trace_anew(self._model)
            lower = f"{_told(found)} It goes on from {found.finite_at:g}, and may fall lower."
            self._repaired(now, lower, step)
        return bool(bound)

    def _strategy(self) -> LossScale:
        """The strategy of all optimizers of the model."""
        return self._recorder.optimizers[0].loss_scale

    def mends_first_step(self, batches: list[TensorTree], now: StepCounters) -> bool:
        """Moves layers to float32 that overflow in the first step, or lets the scale fall lower.

        Args:
            batches: their step was skipped at every loss scale.
            now: the counters.
        """
        try:
            found, batch = locate_in(self._model, batches, now.loss_scale)
        except Exception:  # a step of the user's own may not be replayed
            return False
        self._reason = "The first step was not finite"
        if found is None or found.cause != "overflow":
            return found is not None and self._let_scale_fall(found, batch, now, step=1)
        moved = self._move_to_float32(found, batch)
        if moved:
            self._repaired(now, f"{_told(found)} Moved to float32: {', '.join(moved)}.", step=1)
        return bool(moved)

    def scale_for_others(self, batches: list[TensorTree], scale: float) -> float:
        """The largest scale up to this one that serves a half of a batch, every other row.

        It is the scale for the batches after one whose step is skipped at every scale: an odd row
        is in one half alone. It is the given scale if no half tells more.
        """
        found = []
        for first in (0, 1):
            try:
                half = keras.tree.map_structure(partial(_every_other, first), batches[0])
                bad, _ = locate_in(self._model, [half], scale)
            except Exception:  # not every batch can be divided
                return scale
            found.append(bad.finite_at if bad else scale)
        return max((one for one in found if one is not None), default=scale)

    def _move_to_float32(self, found: NonFinite | None, batch: TensorTree) -> tuple[str, ...]:
        """Makes the layers that overflow on a batch compute in float32 from the next step on."""
        moved: list[str] = []
        while found and (head := _overflowing(self._model, found)) is not None:
            reverting.move_to_float32(self._model, _in_float16(head))
            moved.append(head.path)
            # Layers behind it may overflow, too, and those before it get the same gradients.
            found = locate_in(self._model, [batch], 1.0)[0]
            found = found if found and found.cause == "overflow" else None
        if not moved:
            return ()
        self._model.make_train_function(force=True)
        for optimizer in self._recorder.optimizers:
            if optimizer.built:
                # The overflow that is fixed now had driven it down.
                optimizer.scale_variable.assign(optimizer.loss_scale.initial)
        return tuple(moved)


def _told(found: NonFinite) -> str:
    """A finding whose advice was followed."""
    return str(replace(found, advice=""))


def _every_other(first: int, values: Tensor | None) -> Tensor | None:
    return None if values is None else values[first::2]


def _overflowing(model: keras.Model, found: NonFinite) -> LayerNode | None:
    """The float16 layer that a finding names, if float32 fixes it."""
    if found.cause not in ("overflow", "loss scale"):  # a wider range removes no other
        return None
    nodes = {node.path: node for node in layer_tree.walk(model).within()}
    node = nodes.get(found.layer or layer_tree.ROOT)
    head = node and (node.head or node)
    return head if head and _in_float16(head) else None


def _in_float16(head: LayerNode) -> list[keras.layers.Layer]:
    return [part.layer for part in head.unit() if part.layer.compute_dtype == "float16"]


def beyond_backoff(seen: StepCounters, run: int, strategy: LossScale) -> str | None:
    """Why the loss scale did not cause skipped steps; None if it did.

    A dynamic scale finds its place by skipping: a few steps at the start, and one now and then
    after it has grown. This is no fault.

    Args:
        seen: the counters of the steps between two readings.
        run: the latest skipped steps in a row.
        strategy: moves the scale.
    """
    skipped, steps, scale = seen.skipped_steps, seen.steps, f"{seen.loss_scale:g}"
    if skipped <= 0:
        return None
    if not isinstance(strategy, DynamicLossScale):
        return f"{skipped} of {steps} steps were not finite at loss scale {scale}"
    if seen.loss_scale <= strategy.min_scale and skipped > seen.backoffs:
        return f"steps were not finite even at the lowest loss scale, {scale}"
    if run >= PATIENCE:
        return f"{run} steps in a row were not finite, down to loss scale {scale}"
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
