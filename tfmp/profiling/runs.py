"""A copy of a model that trains, or predicts, under one policy, step by step, to be timed.

It runs the same step as `fit` and `predict`: the trainer's compiled function, the optimizer with
its loss scale, and the user's `train_step`. Batches are on the device before the clock starts.
"""

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import keras
from keras import ops, tree

from tfmp.loss_scaling import (
    LossScaleOptimizer,
    StaticLossScale,
    UnscaledLossWarning,
    attach_loss_scale,
    read_counters,
)
from tfmp.machine import Memory, PeakMemory, devices, measuring
from tfmp.machine.measuring import DEVICE_MEMORY
from tfmp.precision import Pattern, PrecisionPlan, is_narrow, plan, policy as policies
from tfmp.profiling.copies import compile_arguments
from tfmp.roofline import Work, without_cudnn, work_of
from tfmp.shared.backend import Tensor, TensorTree, current_backend
from tfmp.shared.batches import TrainingBatch

# Steps between the one that compiles and the first that counts: allocators and caches settle.
_SETTLING_STEPS = 2

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


class Run:
    """A copy of a model that runs under a variant, on batches of the same shape.

    Attributes:
        model: the copy; no other code uses it.
        variant: the policy to run under.
        plan: the plan of that policy.
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
            self.plan: PrecisionPlan = plan(model, variant.policy, keep_float32)
            self.plan.apply()
            self._fit_optimizer()
            model.steps_per_execution = 1
            if variant.xla is not None:
                model.jit_compile = variant.xla
            floatx = policies.floatx_of(variant.policy)
            self._on_device = [batch.placed(floatx) for batch in batches]
            self._state: tuple[list[Tensor], ...] | None = self._made()

    def _fit_optimizer(self) -> None:
        """Sets up loss scaling."""

    def _made(self) -> tuple[list[Tensor], ...] | None:
        """Makes the function of a step; returns the state that it takes, if it is stateless."""
        raise NotImplementedError

    def batch(self) -> tuple[TensorTree, ...]:
        """The first batch, on the device."""
        return self._on_device[0]

    def _kernel(self) -> Callable[..., TensorTree]:
        """The model's own step, which its function compiles."""
        raise NotImplementedError

    def warm_up(self) -> float:
        """Takes the first step, which compiles, and a few more; returns the first one's seconds."""
        first = self.run(1)
        self.run(_SETTLING_STEPS)
        return first

    def run(self, steps: int) -> float:
        """Takes so many steps; returns the seconds until the device has done them."""
        last: TensorTree = None
        with self._scope():
            current_backend().synchronize(self._state)
            start = time.perf_counter()
            for _ in range(steps):
                last = self._step()
            current_backend().synchronize((self._state, last))
            return time.perf_counter() - start

    def _step(self) -> TensorTree:
        raise NotImplementedError

    @contextmanager
    def _scope(self) -> Iterator[None]:
        with devices.tf32_switched(self.variant.tf32), policies.floatx_scope(self.variant.policy):
            yield

    def memory(self) -> Memory:
        """The memory of the tensors that the run holds, and the highest rise during a step."""
        if self._state is not None and self.model.jit_compile and not self.model.run_eagerly:
            with self._scope():
                arguments = self._state, self.batch()
                needed = current_backend().step_bytes(self._kernel(), arguments)
            if needed is not None:
                return Memory(needed, DEVICE_MEMORY)
        rises = []
        for _ in range(_MEMORY_STEPS):
            meter = PeakMemory()
            self.run(1)
            rises.append(meter.read())
        rise = max(rises, key=lambda memory: memory.bytes)
        model = self.model
        held = (*model.variables, *model.optimizer.variables, *tree.flatten(self.batch()))
        return Memory(sum(map(measuring.size_in_bytes, held)) + rise.bytes, rise.source)


class PredictionRun(Run):
    """A run of `predict`, on the first of some batches; its labels are not used."""

    def _made(self) -> tuple[list[Tensor], ...] | None:
        self.model.make_predict_function(force=True)
        return _copies([self.model.trainable_variables, self.model.non_trainable_variables])

    def batch(self) -> tuple[TensorTree, ...]:
        """As in `Run`, without labels."""
        return self._on_device[0][:1]

    def _kernel(self) -> Callable[..., TensorTree]:
        return self.model.predict_step

    def _step(self) -> TensorTree:
        if self._state is None:
            return self.model.predict_function([self.batch()])
        outputs, self._state = self.model.predict_function(self._state, iter([self.batch()]))
        return outputs


class TrainingRun(Run):
    """A run of training steps, whose batches come in turn.

    Attributes:
        unscaled: whether the model's own training step does not scale its loss.
        steps_taken: number of steps since the run was made.
    """

    unscaled = False
    steps_taken = 0

    def _fit_optimizer(self) -> None:
        """As `MixedPrecision` does: dynamic for FP16, fixed at 1 for bfloat16."""
        model, name = self.model, self.variant.policy
        if is_narrow(name):
            fixed = name in ("mixed_bfloat16", "bfloat16")
            attach_loss_scale(model, StaticLossScale(1.0) if fixed else "dynamic")
            model.optimizer.watch_scale_loss()
        elif isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            model.compile(**compile_arguments(model))

    def _made(self) -> tuple[list[Tensor], ...] | None:
        self.model.make_train_function(force=True)
        self._batches: Iterator[TensorTree] = itertools.cycle(self._on_device)
        self._logs: dict[str, Tensor] = {}
        if current_backend().is_stateless:
            # As `fit` does: metrics and optimizer have no variables before they see a batch.
            self.model._symbolic_build(data_batch=self.batch())
        return _copies(_groups(self.model))

    def warm_up(self) -> float:
        """As in `Run`; a scale that the step does not apply to its loss is taken away."""
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
        self._state = self._made()

    def run(self, steps: int) -> float:
        """As in `Run`, with metrics that begin anew."""
        self.model.reset_metrics()
        if self._state is not None:
            self._state = (*self._state[:3], _values(self.model.metrics_variables))
        self.steps_taken += steps
        return super().run(steps)

    def _step(self) -> TensorTree:
        batches = current_backend().feed([next(self._batches)])
        if self._state is None:
            self._logs = self.model.train_function(batches)
        else:
            self._logs, self._state = self.model.train_function(self._state, batches)
        return None

    def _kernel(self) -> Callable[..., TensorTree]:
        return self.model.train_step

    def mean_loss(self) -> float | None:
        """The mean loss over the steps of the last `run`; None if the step reports no loss."""
        loss = self._logs.get("loss") if isinstance(self._logs, dict) else None
        return None if loss is None else float(ops.convert_to_numpy(loss))

    def skipped_steps(self) -> int:
        """The number of steps that the loss-scale optimizer has not applied so far."""
        self.give_back()
        optimizer = self.model.optimizer
        if not isinstance(optimizer, LossScaleOptimizer):
            return 0
        return read_counters(optimizer).skipped_steps

    def give_back(self) -> None:
        """Puts the trained values into the model's variables (JAX keeps them outside)."""
        if self._state is not None:
            for group, values in zip(_groups(self.model), self._state, strict=True):
                for variable, value in zip(group, values, strict=True):
                    variable.assign(value)
            # The next step donates its arguments: the variables keep copies.
            self._state = tree.map_structure(lambda value: value.copy(), self._state)

    def work(self) -> Work:
        """FLOPs and bytes of one step; a backend without XLA takes the step to count them.

        No step after it measures gauges of the gradients.
        """
        self.give_back()
        if isinstance(self.model.optimizer, LossScaleOptimizer):
            self.model.optimizer.measure_nothing()
        state = () if self._state is None else (self._state,)
        with without_cudnn(self.model):
            return work_of(self.model.train_step, (*state, self.batch()))


def _copies(groups: Sequence[list[keras.Variable]]) -> tuple[list[Tensor], ...] | None:
    """The state that a stateless step takes and donates; None where steps are in place."""
    if not current_backend().is_stateless:
        return None
    return tuple([ops.copy(value) for value in _values(group)] for group in groups)


def _groups(model: keras.Model) -> tuple[list[keras.Variable], ...]:
    return (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )


def _values(variables: Sequence[keras.Variable]) -> list[Tensor]:
    return [variable.value for variable in variables]
