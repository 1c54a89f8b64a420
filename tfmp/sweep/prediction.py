"""PredictionRun: a copy of a model that predicts under one policy, batch by batch, to be timed.

It runs the same compiled function as `predict`, on a batch that is on the device before the clock
starts.
"""

import time
from collections.abc import Iterable
from functools import partial

import keras
from keras import tree

from tfmp.machine import Memory, devices, measuring
from tfmp.precision import Pattern, plan, policy as policies
from tfmp.profiling import Variant, memory_of
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.batches import TrainingBatch

# Calls between the one that compiles and the first that counts: allocators and caches settle.
_SETTLING_CALLS = 2


class PredictionRun:
    """A copy of a model that predicts under a variant.

    Args:
        model: a copy that no other code uses.
        variant: the policy to predict under.
        batch: samples; labels are not used.
        keep_float32: as in `tfmp.plan`.
    """

    def __init__(
        self,
        model: keras.Model,
        variant: Variant,
        batch: TrainingBatch,
        keep_float32: Pattern | Iterable[Pattern] = (),
    ) -> None:
        self.model = model
        self._variant = variant
        plan(model, variant.policy, keep_float32).apply()
        model.steps_per_execution = 1
        if variant.xla is not None:
            model.jit_compile = variant.xla
        model.make_predict_function(force=True)
        self._x: TensorTree = batch.placed(policies.floatx_of(variant.policy))[0]
        self._state = self._initial_state()

    def warm_up(self) -> float:
        """Predicts once, which compiles, and a few times more; returns the first one's seconds."""
        first = self.run(1)
        self.run(_SETTLING_CALLS)
        return first

    def run(self, steps: int) -> float:
        """Predicts so many times; returns the seconds until the device has done it."""
        predict = self.model.predict_function
        outputs: TensorTree = None
        with devices.tf32_switched(self._variant.tf32):
            measuring.synchronize(self._state)
            start = time.perf_counter()
            for _ in range(steps):
                if self._state is None:
                    outputs = predict([(self._x,)])
                else:
                    outputs, self._state = predict(self._state, iter([(self._x,)]))
            measuring.synchronize(outputs)
            return time.perf_counter() - start

    def memory(self) -> Memory:
        """The memory of weights and a batch, and the rise during a call."""
        held = [variable.value for variable in self.model.variables]
        return memory_of(partial(self.run, 1), [*held, *tree.flatten(self._x)])

    def _initial_state(self) -> tuple[list[Tensor], ...] | None:
        if keras.backend.backend() != "jax":
            return None
        import jax

        # Copies: the function donates its state.
        groups = (self.model.trainable_variables, self.model.non_trainable_variables)
        return tuple([jax.numpy.array(v.value) for v in group] for group in groups)
