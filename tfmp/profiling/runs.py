"""TrainingRun: one copy of a model that trains under one policy, step by step, to be timed.

The step is the one `fit` runs: the trainer's own compiled function, the optimizer with its loss
scale, a `train_step` of the user's. Batches are on the device before the clock starts.
"""

import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import tree

from tfmp.fit import UNSCALED_STEP, preflight_findings
from tfmp.loss_scaling import (
    LossScaleOptimizer,
    StaticLossScale,
    UnscaledLossWarning,
    attach_loss_scale,
    read_counters,
)
from tfmp.machine import Memory, PeakMemory, devices, measuring
from tfmp.precision import Pattern, PrecisionPlan, is_narrow, plan
from tfmp.profiling.copies import compile_arguments
from tfmp.shared.batches import TrainingBatch

# Steps after the one that compiles and before any that counts: allocators and caches settle.
_SETTLING_STEPS = 2

# On a CPU a step's rise is now and then too small, never too large: see `PeakMemory`.
_MEMORY_STEPS = 3


@dataclass(frozen=True)
class Variant:
    """One way to run the same training step.

    Attributes:
        policy: name of a Keras dtype policy.
        tf32: whether float32 products may run as TF32; None leaves the setting as it is.
    """

    policy: str
    tf32: bool | None = None

    def __str__(self) -> str:
        return f"{self.policy} (TF32)" if self.tf32 else self.policy


def variants_of(policies: Sequence[str], device: devices.Device) -> tuple[Variant, ...]:
    """The policies, with float32 once without and once with TF32 where the device has it."""
    found = []
    for policy in policies:
        if policy == "float32" and device.tf32:
            found += [Variant(policy, tf32=False), Variant(policy, tf32=True)]
        else:
            found.append(Variant(policy))
    return tuple(found)


class TrainingRun:
    """A model of its own under a variant, and where its training is.

    Args:
        model: a copy that nobody else uses; its weights are trained.
        variant: what to train it under.
        batches: arrays, all of one shape; they are used in turn.
        keep_float32: as in `tfmp.plan`.

    Attributes:
        plan: what was applied.
        unscaled: whether the model's own training step does not scale its loss.
        steps_taken: since the run was made.
    """

    def __init__(
        self,
        model: keras.Model,
        variant: Variant,
        batches: Sequence[TrainingBatch],
        keep_float32: Pattern | Sequence[Pattern] = (),
    ) -> None:
        self.model = model
        self.variant = variant
        self.plan: PrecisionPlan = plan(model, variant.policy, keep_float32)
        findings = preflight_findings(model, self.plan)
        self.unscaled = any(found.check == UNSCALED_STEP for found in findings)
        self.plan.apply()
        _fit_optimizer(model, variant.policy, self.unscaled)
        model.steps_per_execution = 1
        model.make_train_function(force=True)
        self._on_device = [batch.placed() for batch in batches]
        self._batches: Iterator[Any] = itertools.cycle(self._on_device)
        self._state = self._initial_state()
        self._logs: dict[str, Any] = {}
        self.steps_taken = 0

    def warm_up(self) -> float:
        """The first step, which compiles, and a few more; returns the seconds of the first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnscaledLossWarning)  # it is mended here
            first = self.run(1)
        if getattr(self.model.optimizer, "loss_was_scaled", None) is False:
            self.unscaled = True
            self._take_scale_away()
            first = self.run(1)
        self.run(_SETTLING_STEPS)
        return first

    def _take_scale_away(self) -> None:
        """A step that never scales its loss would only have its gradients shrunk by a scale."""
        if self.model.optimizer.loss_scale == StaticLossScale(1.0):
            return
        self.give_back()
        attach_loss_scale(self.model, StaticLossScale(1.0))
        self.model.make_train_function(force=True)
        self._state = self._initial_state()

    def run(self, steps: int) -> float:
        """Takes that many steps; returns the seconds until the device has done them."""
        self.model.reset_metrics()
        if self._state is not None:
            self._state = (*self._state[:3], _values(self.model.metrics_variables))
        self.steps_taken += steps
        step = self.model.train_function
        with devices.tf32_switched(self.variant.tf32):
            measuring.synchronize(self._state)
            start = time.perf_counter()
            for _ in range(steps):
                if self._state is None:
                    self._logs = step(self._batches)
                else:
                    self._logs, self._state = step(self._state, self._batches)
            measuring.synchronize(self._state)
            return time.perf_counter() - start

    def mean_loss(self) -> float | None:
        """The mean loss over the steps of the last `run`; None if the step reports none."""
        loss = self._logs.get("loss") if isinstance(self._logs, dict) else None
        return None if loss is None else float(np.asarray(loss))

    def skipped_steps(self) -> int:
        """How many steps the loss-scale optimizer did not apply so far."""
        self.give_back()
        optimizer = self.model.optimizer
        if not isinstance(optimizer, LossScaleOptimizer):
            return 0
        return read_counters(optimizer).skipped_steps

    def memory(self) -> Memory:
        """What training needs: weights, optimizer state, a batch, and what a step adds to them."""
        rise = max((self._rise() for _ in range(_MEMORY_STEPS)), key=lambda memory: memory.bytes)
        held = [*_groups(self.model)[0], *_groups(self.model)[1], *_groups(self.model)[2]]
        tensors = [*held, *tree.flatten(self.batch())]
        return Memory(sum(map(_size_in_bytes, tensors)) + rise.bytes, rise.source)

    def _rise(self) -> Memory:
        meter = PeakMemory()
        self.run(1)
        return meter.read()

    def give_back(self) -> None:
        """Puts the trained values into the model's variables (JAX keeps them outside)."""
        if self._state is not None:
            for group, values in zip(_groups(self.model), self._state, strict=True):
                for variable, value in zip(group, values, strict=True):
                    variable.assign(value)
            # The next step donates what it is given: the variables keep copies.
            self._state = tree.map_structure(lambda value: value.copy(), self._state)

    def batch(self) -> Any:
        """The first batch, on the device."""
        return self._on_device[0]

    def _initial_state(self) -> Any:
        if keras.backend.backend() != "jax":
            return None
        import jax

        # As `fit` does: metrics and optimizer have no variables before they saw a batch.
        self.model._symbolic_build(data_batch=self._on_device[0])
        # Copies: the step donates its state, and the values may be shared with another model.
        return tuple([jax.numpy.array(v) for v in _values(group)] for group in _groups(self.model))


def _fit_optimizer(model: keras.Model, policy: str, unscaled: bool) -> None:
    """Loss scaling as `MixedPrecision` has it: dynamic for FP16, only a check for bfloat16."""
    if is_narrow(policy):
        fixed = unscaled or policy == "mixed_bfloat16"
        attach_loss_scale(model, StaticLossScale(1.0) if fixed else "dynamic")
        model.optimizer.watch_scale_loss()
    elif isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        arguments = compile_arguments(model)
        model.compile(**arguments)


def _size_in_bytes(tensor: Any) -> int:
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    size = 2 if dtype == "bfloat16" else 1 if dtype == "string" else np.dtype(dtype).itemsize
    return int(np.prod(tensor.shape, dtype=np.int64)) * size


def _groups(model: keras.Model) -> tuple[list[Any], ...]:
    return (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]
