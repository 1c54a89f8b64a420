"""MixedPrecision: one callback that makes `fit` train in mixed precision and says what happened."""

import sys
from collections.abc import Iterable
from typing import Any

import keras

from tfmp import policy as policies
from tfmp.attach import attach_loss_scale, detach_loss_scale
from tfmp.keep import Pattern
from tfmp.loss_scale import LossScaleOptimizer
from tfmp.named_policies import is_narrow
from tfmp.policy import PrecisionPlan
from tfmp.strategies import LossScale, StaticLossScale, as_loss_scale
from tfmp.telemetry import read_counters


class MixedPrecision(keras.callbacks.Callback):
    """Trains a compiled float32 model in mixed precision, inside the `fit` that it is given to.

        model.fit(x, y, callbacks=[tfmp.MixedPrecision()])

    When training begins, the layers are switched to the plan's dtypes, the optimizer is wrapped in
    a `LossScaleOptimizer` that keeps its moments, and the training function is traced anew. The
    model stays like that afterwards, so that it can be evaluated, saved and trained on as it is;
    `tfmp.revert(model)` gives back the float32 model with the trained weights.

    `logs`, and with them `History`, get `loss_scale` and `skipped_steps` (of the epoch).
    """

    def __init__(
        self,
        policy: str = "auto",
        loss_scale: LossScale | float | str = "dynamic",
        keep_float32: Pattern | Iterable[Pattern] = (),
    ) -> None:
        super().__init__()
        policies.check_policy(policy)
        as_loss_scale(loss_scale)
        self.policy = policy
        self.loss_scale = loss_scale
        self.keep_float32 = keep_float32
        self.plan: PrecisionPlan | None = None
        self._skipped_before = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Plans, applies, wraps the optimizer and has the training function traced anew."""
        model = self.model
        self.plan = policies.plan(model, self.policy, self.keep_float32)
        self.plan.apply()
        if is_narrow(self.plan.policy):
            attach_loss_scale(model, self._scale_for(self.plan.policy))
        else:
            detach_loss_scale(model)
        # `fit` made its training function before it called this.
        model.make_train_function(force=True)
        _, self._skipped_before = self._read()
        if self.params.get("verbose"):
            sys.stdout.write(f"tfmp: {self.plan.policy}. {self.plan.reason}.\n")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the loss scale and the steps skipped in this epoch to the logs."""
        scale, skipped = self._read()
        if logs is not None:
            logs["loss_scale"] = scale
            logs["skipped_steps"] = skipped - self._skipped_before
        self._skipped_before = skipped

    def _scale_for(self, policy: str) -> LossScale | float | str:
        # bfloat16 has float32's exponents: nothing underflows, but bad steps are still skipped.
        if policy == "mixed_bfloat16" and self.loss_scale == "dynamic":
            return StaticLossScale(1.0)
        return self.loss_scale

    def _read(self) -> tuple[float, int]:
        if not isinstance(self.model.optimizer, LossScaleOptimizer):
            return 1.0, 0
        counters = read_counters(self.model.optimizer, self.model)
        return counters.loss_scale, counters.skipped_steps
