"""TrainingRun: a copy of a model that trains under one policy, step by step, to be timed.

It runs the same step as `fit`: the trainer's compiled function, the optimizer with its loss scale,
and the user's `train_step`. Batches are on the device before the clock starts.
"""

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

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
from tfmp.precision import Pattern, PrecisionPlan, is_narrow, plan, policy as policies
from tfmp.profiling.copies import compile_arguments
from tfmp.roofline import Work, count_work, program_text, without_cudnn
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.batches import TrainingBatch

# Steps between the one that compiles and the first that counts: allocators and caches settle.
_SETTLING_STEPS = 2

# Without `steps`, a round of the slowest variant takes about this long.
_ROUND_SECONDS = 0.25
_MOST_STEPS = 50

# On a CPU the measured rise of a step may be too small, but never too large: see `PeakMemory`.
_MEMORY_STEPS = 3


@dataclass(frozen=True)
class Variant:
    """One way to run the same training step.

    Attributes:
        policy: name of a Keras dtype policy.
        tf32: whether float32 products may run as TF32; None leaves the setting as it is.
        xla: whether XLA compiles the step; None leaves the choice to the model.
    """

    policy: str
    tf32: bool | None = None
    xla: bool | None = None

    @property
    def uses_tf32(self) -> bool:
        """Whether float32 products run as TF32 on the device that is there."""
        if self.tf32 is not None:
            return self.tf32
        return bool(devices.tf32_in_use(devices.visible_devices()[0]))

    def __str__(self) -> str:
        name = f"{self.policy} (TF32)" if self.tf32 else self.policy
        return name if self.xla is None else f"{name}, {'XLA' if self.xla else 'no XLA'}"


def variants_of(names: Sequence[str], device: devices.Device) -> tuple[Variant, ...]:
    """The policies; float32 comes twice if the device has TF32, without TF32 and with it."""
    found = []
    for name in names:
        if name == "float32" and device.tf32:
            found += [Variant(name, tf32=False), Variant(name, tf32=True)]
        else:
            found.append(Variant(name))
    return tuple(found)


class TrainingRun:
    """A copy of a model that trains under a variant.

    Args:
        model: a copy that no other code uses; its weights are trained.
        variant: the policy to train under.
        batches: arrays of the same shape, which are used in turn.
        keep_float32: as in `tfmp.plan`.

    Attributes:
        plan: the applied plan.
        unscaled: whether the model's own training step does not scale its loss.
        steps_taken: number of steps since the run was made.
    """

    def __init__(
        self,
        model: keras.Model,
        variant: Variant,
        batches: Sequence[TrainingBatch],
        keep_float32: Pattern | Iterable[Pattern] = (),
    ) -> None:
        self.model = model
        self.variant = variant
        with policies.floatx_scope(variant.policy):
            self._make_ready(batches, keep_float32)
        self.steps_taken = 0

    def _make_ready(
        self, batches: Sequence[TrainingBatch], keep_float32: Pattern | Iterable[Pattern]
    ) -> None:
        model, variant = self.model, self.variant
        self.plan: PrecisionPlan = plan(model, variant.policy, keep_float32)
        findings = preflight_findings(model, self.plan)
        self.unscaled = any(found.check == UNSCALED_STEP for found in findings)
        self.plan.apply()
        _fit_optimizer(model, variant.policy, self.unscaled)
        model.steps_per_execution = 1
        if variant.xla is not None:
            model.jit_compile = variant.xla
        model.make_train_function(force=True)
        floatx = policies.floatx_of(variant.policy)
        self._on_device = [batch.placed(floatx) for batch in batches]
        self._batches: Iterator[TensorTree] = itertools.cycle(self._on_device)
        self._state = self._initial_state()
        self._logs: dict[str, Tensor] = {}

    def warm_up(self) -> float:
        """Takes the first step, which compiles, and a few more; returns the first one's seconds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnscaledLossWarning)  # its cause is removed here
            first = self.run(1)
        if getattr(self.model.optimizer, "loss_was_scaled", None) is False:
            self.unscaled = True
            self._take_scale_away()
            first = self.run(1)
        self.run(_SETTLING_STEPS)
        return first

    def _take_scale_away(self) -> None:
        """Sets the scale to 1: without a scaled loss, a scale would only shrink the gradients."""
        if self.model.optimizer.loss_scale == StaticLossScale(1.0):
            return
        self.give_back()
        attach_loss_scale(self.model, StaticLossScale(1.0))
        self.model.make_train_function(force=True)
        self._state = self._initial_state()

    def run(self, steps: int) -> float:
        """Takes so many steps; returns the seconds until the device has done them."""
        self.model.reset_metrics()
        if self._state is not None:
            self._state = (*self._state[:3], _values(self.model.metrics_variables))
        self.steps_taken += steps
        step = self.model.train_function
        with devices.tf32_switched(self.variant.tf32), policies.floatx_scope(self.variant.policy):
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
        """The mean loss over the steps of the last `run`; None if the step reports no loss."""
        loss = self._logs.get("loss") if isinstance(self._logs, dict) else None
        return None if loss is None else float(np.asarray(loss))

    def skipped_steps(self) -> int:
        """The number of steps that the loss-scale optimizer has not applied so far."""
        self.give_back()
        optimizer = self.model.optimizer
        if not isinstance(optimizer, LossScaleOptimizer):
            return 0
        return read_counters(optimizer).skipped_steps

    def memory(self) -> Memory:
        """The memory of weights, optimizer state and a batch, and the rise during a step."""
        held = [*_groups(self.model)[0], *_groups(self.model)[1], *_groups(self.model)[2]]
        return memory_of(partial(self.run, 1), [*held, *tree.flatten(self.batch())])

    def give_back(self) -> None:
        """Puts the trained values into the model's variables (JAX keeps them outside)."""
        if self._state is not None:
            for group, values in zip(_groups(self.model), self._state, strict=True):
                for variable, value in zip(group, values, strict=True):
                    variable.assign(value)
            # The next step donates its arguments: the variables keep copies.
            self._state = tree.map_structure(lambda value: value.copy(), self._state)

    def batch(self) -> tuple[TensorTree, ...]:
        """The first batch, on the device."""
        return self._on_device[0]

    def work(self) -> Work:
        """FLOPs and bytes of one step, as XLA gets it, on a model that runs without XLA, too."""
        self.give_back()
        state = () if self._state is None else (self._state,)
        with without_cudnn(self.model):
            return count_work(program_text(self.model.train_step, (*state, self.batch())))

    def _initial_state(self) -> tuple[list[Tensor], ...] | None:
        if keras.backend.backend() != "jax":
            return None
        import jax

        # As `fit` does: metrics and optimizer have no variables before they see a batch.
        self.model._symbolic_build(data_batch=self._on_device[0])
        # Copies: the step donates its state, and the values may be shared with another model.
        return tuple([jax.numpy.array(v) for v in _values(group)] for group in _groups(self.model))


def memory_of(step: Callable[[], object], held: Sequence[Tensor]) -> Memory:
    """The memory of tensors that a run holds, and the highest rise during a step."""
    rises = []
    for _ in range(_MEMORY_STEPS):
        meter = PeakMemory()
        step()
        rises.append(meter.read())
    rise = max(rises, key=lambda memory: memory.bytes)
    return Memory(sum(map(measuring.size_in_bytes, held)) + rise.bytes, rise.source)


def steps_in_a_round(slowest: float) -> int:
    """Number of steps in one timing, from the seconds of the slowest variant's step."""
    return min(_MOST_STEPS, max(1, int(_ROUND_SECONDS / max(slowest, 1e-9))))


def _fit_optimizer(model: keras.Model, name: str, unscaled: bool) -> None:
    """Sets up loss scaling as `MixedPrecision` does: dynamic for FP16, fixed at 1 for bfloat16."""
    if is_narrow(name):
        fixed = unscaled or name in ("mixed_bfloat16", "bfloat16", "mixed_float8")
        attach_loss_scale(model, StaticLossScale(1.0) if fixed else "dynamic")
        model.optimizer.watch_scale_loss()
    elif isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        arguments = compile_arguments(model)
        model.compile(**arguments)


def _groups(model: keras.Model) -> tuple[list[keras.Variable], ...]:
    return (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )


def _values(variables: Sequence[keras.Variable]) -> list[Tensor]:
    return [variable.value for variable in variables]
