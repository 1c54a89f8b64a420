"""The step of a loss-scale optimizer: in place, or as a pure function with JAX."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TypeAlias

import keras
from keras import ops

from tfmp.loss_scaling import gauges, gradients, transitions
from tfmp.loss_scaling.strategies import LossScale
from tfmp.loss_scaling.transitions import Snapshot
from tfmp.shared.backend import Tensor, current_backend

# One for each variable; None for a variable without a gradient.
Gradients: TypeAlias = list[Tensor | None]


class ScaledSteps(keras.optimizers.LossScaleOptimizer):
    """Divides gradients, and applies them or skips the step.

    Attributes:
        loss_scale: the strategy object.
        scale_variable, step_counter, counters, gauges: variables, as of `LossScaleOptimizer`.
        was_skipped: whether the last step was skipped; only where branches are Python's.
    """

    loss_scale: LossScale
    was_skipped: bool = False
    scale_variable: keras.Variable
    step_counter: keras.Variable
    counters: keras.Variable
    gauges: keras.Variable
    _measure_every: int
    _measure_first: int

    # --- TensorFlow and PyTorch: variables are updated in place, replicas need to agree first ---

    def _apply_in_place(self, grads: Gradients, variables: list[keras.Variable]) -> None:
        own = current_backend()
        grads = own.with_known_shapes(grads, variables)
        replicas = own.replicas()
        finite = own.all_finite([own.stored(grad) for grad in grads if grad is not None])
        if finite is None:
            finite = self._finite_flags(grads, variables)

        def update(grads: Gradients, scale: Tensor) -> None:
            self._apply_inner(self._unscale(grads, variables, scale), variables)

        def step(finite: Tensor, update: Callable[[Tensor], object], grads: Gradients) -> None:
            self._apply_or_skip(finite, update, grads, variables, replicas)

        own.on_replicas(finite, grads, update, step)

    def _apply_inner(self, grads: Gradients, variables: list[keras.Variable]) -> None:
        inner = self.inner_optimizer
        # The method that Keras calls on TensorFlow, where an optimizer has one of its own.
        if type(inner).apply_gradients is not keras.optimizers.Optimizer.apply_gradients:
            inner.apply_gradients(zip(grads, variables, strict=True))
        else:
            inner.apply(grads, variables)

    def _apply_or_skip(
        self,
        finite: Tensor,
        update: Callable[[Tensor], object],
        grads: Gradients,
        variables: list[keras.Variable],
        replicas: int,
    ) -> None:
        everything, now = self._all_of(grads, variables), self._snapshot()
        own = current_backend()
        applied = ops.all(finite)
        applied, rare = own.decided(applied, self._is_rare(now, applied))
        if own.picks_in_python:
            self.was_skipped = not applied

        def rare_step(grads: Gradients, finite: Tensor) -> None:
            # Alone, a replica looks again at what is not finite: flags that left the check for
            # here would keep XLA from fusing it.
            flags = None if replicas == 1 else finite
            _, *after = self._after_rare_step(self._snapshot(), own.read(self.gauges), grads, flags)
            for variable, value in zip((*self._scale_variables, self.gauges), after, strict=True):
                variable.assign(value)

        def count() -> None:
            self.step_counter.assign_add(1)

        # Not within the condition of the update: XLA takes longer for one within another. It may
        # move the scale that these gradients have.
        own.branch(
            rare,
            lambda: own.rarely_run(rare_step)(everything, finite),
            count,
        )
        own.branch(applied, lambda: update(now.scale), lambda: None)

    @property
    def _scale_variables(self) -> tuple[keras.Variable, keras.Variable, keras.Variable]:
        return self.scale_variable, self.step_counter, self.counters

    def _snapshot(self) -> Snapshot:
        # The bare counter, not `iterations`, which gradient accumulation divides.
        variables = (*self._scale_variables, self.inner_optimizer._iterations)
        return Snapshot(*map(current_backend().read, variables))

    # --- JAX: the whole step is a function from old values to new ones ---

    def _stateless_step(
        self,
        optimizer_variables: list[Tensor],
        grads: Gradients,
        trainable_variables: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        own_count = len(self._variables)
        own_before, inner = optimizer_variables[:own_count], list(optimizer_variables[own_count:])
        mapping = list(zip(self.variables, optimizer_variables, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            looks_finite = gradients.sum_is_finite(grads)
            now, gauges_before = self._snapshot(), current_backend().read(self.gauges)

        def update() -> tuple[list[Tensor], list[Tensor]]:
            unscaled = self._unscale(grads, self._trainable_variables, now.scale)
            return self.inner_optimizer.stateless_apply(inner, unscaled, list(trainable_variables))

        applied, *after = current_backend().branch(
            self._is_rare(now, looks_finite),
            lambda: self._after_rare_step(now, gauges_before, grads),
            lambda: (looks_finite, now.scale, now.streak + 1, now.counters, gauges_before),
        )
        new = dict(zip(map(id, (*self._scale_variables, self.gauges)), after, strict=True))
        own = [
            new.get(id(one), value) for one, value in zip(self._variables, own_before, strict=True)
        ]
        trainable, inner = current_backend().branch(
            applied, update, lambda: (list(trainable_variables), inner)
        )
        return list(trainable), [*own, *inner]

    def _apply_statelessly(self, grads: Gradients, variables: list[keras.Variable]) -> None:
        everything = self._trainable_variables
        trainable, own = self._stateless_step(
            [variable.value for variable in self.variables],
            self._all_of(grads, variables),
            [variable.value for variable in everything],
        )
        for variable, value in zip([*everything, *self.variables], [*trainable, *own], strict=True):
            variable.assign(value)

    # --- shared by both ---

    def _all_of(self, grads: Gradients, variables: Sequence[keras.Variable]) -> Gradients:
        """One gradient, or None, for each variable that the optimizer was built with."""
        gradient_of = {
            self._get_variable_index(variable): grad
            for variable, grad in zip(variables, grads, strict=True)
        }
        return [gradient_of.get(index) for index in range(len(self._trainable_variables))]

    def _is_measured(self, now: Snapshot) -> Tensor:
        return gauges.is_due(now.iterations, self._measure_every, self._measure_first)

    def _is_rare(self, now: Snapshot, applied: Tensor) -> Tensor:
        """Whether more happens at a step than that it is applied and counted."""
        rare = ops.logical_or(ops.logical_not(applied), self._is_measured(now))
        moves = transitions.moves_after_finite(self.loss_scale, now)
        return rare if moves is False else ops.logical_or(rare, moves)

    def _after_rare_step(
        self,
        now: Snapshot,
        gauges_before: Tensor,
        grads: Gradients,
        finite: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Whether a step is applied; and the scale, the streak, the counters and the gauges then.

        Args:
            now: the snapshot before the step.
            gauges_before: the gauges before it.
            grads: the scaled gradients, one for each built variable.
            finite: a boolean for each of them, if more replicas than this one decide it.
        """
        sums = gradients.sums_of(grads, now.scale)
        finite = sums.nonfinite == 0 if finite is None else finite
        applied = ops.all(finite)
        after = [
            ops.where(applied, *both)
            for both in zip(
                transitions.after_finite(self.loss_scale, now),
                transitions.after_skip(self.loss_scale, now, finite),
                strict=True,
            )
        ]
        measured = gauges_before
        if self._measure_every:
            measured = ops.where(
                ops.logical_and(applied, self._is_measured(now)),
                gauges.measure(gauges_before, now.scale, now.iterations, sums),
                gauges_before,
            )
        return applied, *after, measured

    def _scale_now(self) -> Tensor:
        if not self.built:
            return self.loss_scale.initial
        try:
            return current_backend().read(self.scale_variable)
        except TypeError:
            if self.scale_variable._value is not None:
                raise
            raise ValueError(
                "scale_loss and unscale expect the values of the optimizer's variables; on JAX, "
                "fit does not keep them there. In train_step, call both in this block:\n"
                "    with keras.StatelessScope("
                "state_mapping=zip(optimizer.variables, optimizer_variables)):"
            ) from None

    def _unscale(
        self, grads: Gradients, variables: Sequence[keras.Variable | None], scale: Tensor
    ) -> Gradients:
        pairs = zip(grads, variables, strict=True)
        scaled = [
            grad is not None and not self._overwrite_variable_with_gradient(variable)
            for grad, variable in pairs
        ]
        divided = iter(current_backend().divided(list(compress(grads, scaled)), scale))
        return [next(divided) if one else grad for grad, one in zip(grads, scaled, strict=True)]

    def _finite_flags(self, grads: Gradients, variables: Sequence[keras.Variable]) -> Tensor:
        """A boolean for each built variable; a missing gradient counts as finite."""
        flags: list[Tensor] = [True] * len(self._trainable_variables)
        for grad, variable in zip(grads, variables, strict=True):
            if grad is not None:
                flags[self._get_variable_index(variable)] = gradients.all_finite(grad)
        return ops.stack(flags)
