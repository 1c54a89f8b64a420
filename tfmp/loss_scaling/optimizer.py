"""LossScaleOptimizer: keeps small gradients inside FP16, and weights away from non-finite ones."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np
from keras import backend, ops

from tfmp.loss_scaling import gauges, gradients, migration, transitions, wrapping
from tfmp.loss_scaling.counters import packed_size
from tfmp.loss_scaling.strategies import (
    DynamicLossScale,
    KerasConfig,
    LossScale,
    ScheduledLossScale,
    StaticLossScale,
)
from tfmp.loss_scaling.tracing import branch, rarely_run, read, replica_index, without_autograph
from tfmp.loss_scaling.transitions import Snapshot, Transition
from tfmp.shared.arguments import check_flag
from tfmp.shared.backend import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

# One for each variable; None for a variable without a gradient.
Gradients: TypeAlias = list[Tensor | None]

__all__ = [
    "DynamicLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "ScheduledLossScale",
    "StaticLossScale",
    "UnscaledLossWarning",
]


# Keras shows the configuration of a class that it cannot find, and packages cannot announce theirs.
_LOAD_HINT = "import tfmp before keras.models.load_model, or load the model with compile=False"


class UnscaledLossWarning(UserWarning):
    """Gradients reached the optimizer, but no code had scaled the loss."""


@keras.saving.register_keras_serializable(package="tfmp")
class LossScaleOptimizer(migration.KerasNames, keras.optimizers.LossScaleOptimizer):
    """Scales the loss, unscales the gradients, and skips steps whose gradients are not finite.

        scaled_loss = optimizer.scale_loss(loss)             # loss * scale
        gradients = d(scaled_loss) / d(variables)
        optimizer.apply(gradients, variables)                # divides by scale, checks, applies

    `fit` makes these calls itself. The gradients that will be applied are checked: under a
    distribution strategy the verdict is all-reduced, so every replica and worker takes the same
    branch. A skipped step changes no weight, no moment and not the inner optimizer's `iterations`.

    All counters live in variables on the device and are saved with the optimizer;
    `tfmp.loss_scaling.telemetry.read_counters` reads them.

    Attributes:
        inner_optimizer: the optimizer that applies the unscaled gradients.
        loss_scale: the strategy object.
        dynamic_scale: float32 variable with the current scale.
        step_counter: integer variable with the finite steps since the last growth or skip.
        counters: integer variable with all other counters; see `tfmp.loss_scaling.counters`.
        gauges: float32 variable with measurements of gradients; see `tfmp.loss_scaling.gauges`.
        loss_was_scaled: None until gradients arrive; then whether `scale_loss` had been called.
        held_as: the optimizer's name in the code of its model.
        loss_waits: whether `scale_loss` was called, and its gradients have not arrived yet.

    Args:
        inner_optimizer: a `keras.optimizers.Optimizer`, built or not; a built one keeps its
            moments and iterations.
        loss_scale: "dynamic", a number (static) or a strategy object.
        name: name of this optimizer.
        enabled: False makes `scale_loss`, `unscale` and the checks do nothing: `apply` is the inner
            optimizer's. Variables and files stay as they are with True.
        **kwargs: in place of `loss_scale`, the arguments of Keras's class: `initial_scale` and
            `dynamic_growth_steps` of a dynamic scale, and `dynamic`.

    Raises:
        TypeError: `inner_optimizer` is not an optimizer.
        ValueError: `inner_optimizer` is wrapped already or scales the loss itself, or `loss_scale`
            or another argument is unknown.
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: LossScale | float | str = "dynamic",
        name: str | None = None,
        enabled: bool = True,
        **kwargs: Any,
    ) -> None:
        strategy = migration.strategy_of(loss_scale, kwargs)
        check_flag("LossScaleOptimizer(enabled=...)", enabled)
        wrapping.check_inner(inner_optimizer)
        with wrapping.creation_scope(inner_optimizer):
            super().__init__(inner_optimizer, initial_scale=strategy.initial, name=name)
        # Keras's attribute: no other strategy has such a number.
        self.dynamic_growth_steps = getattr(strategy, "growth_interval", None)
        self.loss_scale = strategy
        self.enabled = enabled
        # Per replica, the gradients that `unscale` was given; they may be applied as well.
        self._given_to_unscale: dict[int, Gradients] = {}
        self.loss_was_scaled: bool | None = None
        self._scale_loss_called = self.loss_waits = False
        self.held_as = "self.optimizer"
        self._others: tuple[weakref.ref[LossScaleOptimizer], ...] = ()
        self._measure_every, self._measure_first = gauges.EVERY, 0
        wrapping.claim(inner_optimizer, self)

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Creates the state for these trainable variables; builds the inner optimizer if needed."""
        if self.built:
            return
        var_list = list(var_list)
        inner = self.inner_optimizer
        if inner.built:
            wrapping.check_known(inner, var_list)
            # Layers may have been frozen since; their moments stay, so their places stay too.
            var_list = list(inner._trainable_variables)
        with wrapping.creation_scope(inner):
            self._add_state("step_counter", dtype="int")
            self._add_state("dynamic_scale", dtype="float32", value=self.loss_scale.initial)
            self._add_state("counters", dtype="int", shape=(packed_size(len(var_list)),))
            gauges_shape = (gauges.packed_size(len(var_list)),)
            self._add_state("gauges", dtype="float32", shape=gauges_shape)
            if not inner.built:
                inner.build(var_list)
            # Past Keras's own wrapper: it would create its two variables a second time.
            super(keras.optimizers.LossScaleOptimizer, self).build(var_list)

    def _add_state(
        self, name: str, dtype: str, shape: tuple[int, ...] = (), value: float = 0
    ) -> None:
        variable = self.add_variable(
            shape=shape,
            dtype=dtype,
            initializer=keras.initializers.Constant(value),
            aggregation="none",
            name=name,
        )
        setattr(self, name, variable)

    def unwrap(self) -> keras.optimizers.Optimizer:
        """Returns the inner optimizer with its moments; it may be wrapped again."""
        wrapping.release(self.inner_optimizer)
        return self.inner_optimizer

    @without_autograph
    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss times the current scale; take the gradients of this result.

        Args:
            loss: scalar or tensor of losses, any float dtype.

        Returns:
            Same shape, at least float32: the scale itself may not fit into FP16.
        """
        self._scale_loss_called = self.loss_waits = True
        self._given_to_unscale.pop(replica_index(), None)
        if not self.enabled:
            return loss
        scale = self.dynamic_scale if self.built else self.loss_scale.initial
        if backend.is_float_dtype(getattr(loss, "dtype", "float32")):
            loss = ops.cast(loss, backend.result_type(getattr(loss, "dtype", float), "float32"))
        return ops.multiply(loss, scale)

    @without_autograph
    def unscale(
        self,
        grads: Iterable[Tensor | None],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> Gradients:
        """Divides gradients of the scaled loss before `apply`, to clip or to log them.

            gradients = optimizer.unscale(gradients, variables)
            gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
            optimizer.apply(gradients, variables)         # does not divide them again

        Call it once between `scale_loss` and `apply`. A step with a value that is not finite is
        skipped all the same, because clipping keeps the NaN that such a value becomes here. `apply`
        also takes the gradients that were given to this method, and divides them as ever.

        Args:
            grads: gradients of the scaled loss, each a tensor, None or a sparse `tf.IndexedSlices`.
            trainable_variables: their variables; by default those that the optimizer was built
                with.

        Returns:
            The gradients of the loss itself, at least in float32.

        Raises:
            ValueError: it was called before for these gradients.
        """
        grads = list(grads)
        if not self.enabled:
            return grads
        replica = replica_index()
        if replica in self._given_to_unscale:
            raise ValueError(
                "LossScaleOptimizer.unscale expects one call between scale_loss and apply, received"
                " a second: gradients would be divided twice. Call apply(gradients, variables) "
                "with the result of the first, or begin the next step with scale_loss(loss)."
            )
        self._given_to_unscale[replica] = grads
        variables = self._trainable_variables if self.built else []
        if trainable_variables is not None:
            variables = list(trainable_variables)
        if len(variables) != len(grads):
            variables = [None] * len(grads)
        return [
            new if new is None or new is old else gradients.not_finite_as_nan(new)
            for old, new in zip(grads, self._unscale(grads, variables), strict=True)
        ]

    def _scaled_again(self, grads: Gradients) -> Gradients:
        """The gradients as `apply` is to divide them, if some have been divided already."""
        given = self._given_to_unscale.pop(replica_index(), None)
        if given is None:
            return grads
        scale = self._scale_now()
        return [
            grad
            if grad is None or any(grad is one for one in given)
            else gradients.rescale(grad, scale)
            for grad in grads
        ]

    def watch_scale_loss(self) -> None:
        """Forgets earlier calls of `scale_loss`; call this before a step is traced."""
        self._scale_loss_called = self.loss_waits = False
        self.loss_was_scaled = None
        self._given_to_unscale.clear()

    def stands_beside(
        self, others: "Iterable[LossScaleOptimizer]", held_as: str = "self.optimizer"
    ) -> None:
        """Names the other loss-scale optimizers of a model, so that mix-ups are noticed.

        Args:
            others: the other optimizers.
            held_as: this one's name in the code of the model.
        """
        self.held_as = held_as
        self._others = tuple(weakref.ref(other) for other in others if other is not self)

    @without_autograph
    def apply(
        self,
        grads: Iterable[Tensor | None],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> None:
        """Unscales and applies gradients of the scaled loss, or skips the step.

        Args:
            grads: one gradient (or None, or a sparse `tf.IndexedSlices`) for each variable.
            trainable_variables: the variables; by default those that the optimizer was built with.
        """
        grads = list(grads)
        if not grads:
            return
        variables = self._variables_for(grads, trainable_variables)
        if not self.enabled:
            self.inner_optimizer.apply(grads, variables)
            return
        self._note_whether_scaled()
        grads = self._scaled_again(grads)
        if backend.backend() == "tensorflow":
            self._apply_on_tensorflow(grads, variables)
        else:
            self._apply_statelessly(grads, variables)

    def _variables_for(
        self, grads: Gradients, variables: Iterable[keras.Variable] | None
    ) -> list[keras.Variable]:
        if variables is None:
            if not self.built:
                raise ValueError(
                    "LossScaleOptimizer.apply(grads) expects a built optimizer when no variables "
                    "are given. Pass them, apply(grads, variables), or call build(variables) first."
                )
            variables = self._trainable_variables
        variables = list(variables)
        if len(grads) != len(variables):
            raise ValueError(
                f"LossScaleOptimizer.apply expects one gradient per variable, received "
                f"{len(grads)} gradients for {len(variables)} variables. Use None for a variable "
                "that has no gradient."
            )
        if not self.built:
            with keras.name_scope(self.name, caller=self):
                self.build(variables)
        self._check_variables_are_known(variables)
        return variables

    def _check_loss_is_own(self) -> None:
        if self.loss_waits:
            self.loss_waits = False
            return
        for other in filter(None, (reference() for reference in self._others)):
            if other.loss_waits and StaticLossScale(1.0) not in (self.loss_scale, other.loss_scale):
                raise ValueError(
                    f"{self.held_as} received gradients of a loss that {other.held_as} scaled, "
                    "and would divide them by its own scale. Each optimizer scales the loss whose "
                    f"gradients it applies: take these gradients of {self.held_as}.scale_loss("
                    "loss). For a loss that two optimizers share, scale it once for each of them."
                )

    def _note_whether_scaled(self) -> None:
        self._check_loss_is_own()
        # Python runs here on every eager step, but only while tracing under tf.function or
        # jax.jit; a step that was traced with scale_loss needs no second look.
        harmless = self.loss_scale == StaticLossScale(1.0)
        if self.loss_was_scaled is None and not self._scale_loss_called and not harmless:
            warnings.warn(
                "LossScaleOptimizer received gradients, but scale_loss() was never called: they "
                "will be divided by a loss scale that nothing multiplied in, so training all but "
                "stops. In train_step or the training loop, take the gradients of "
                "optimizer.scale_loss(loss) instead of loss.",
                UnscaledLossWarning,
                stacklevel=4,
            )
        self.loss_was_scaled = self._scale_loss_called

    # --- TensorFlow: variables are updated in place, replicas need to agree first ---

    def _apply_on_tensorflow(self, grads: Gradients, variables: list[keras.Variable]) -> None:
        import tensorflow as tf

        replica = tf.distribute.get_replica_context()
        if replica is None:
            raise ValueError(
                "LossScaleOptimizer.apply expects to run on one replica, received a call from the "
                "cross-replica context. Call it inside the function given to strategy.run()."
            )
        finite = self._finite_flags(grads, variables, replica.num_replicas_in_sync)
        if replica.num_replicas_in_sync > 1:
            # Replicas hold the gradients of their own data until the inner optimizer reduces them.
            # In float32, because not every collective and device reduces integers.
            guilty = ops.cast(ops.logical_not(finite), "float32")
            finite = replica.all_reduce(tf.distribute.ReduceOp.SUM, guilty) == 0

        def update(grads: Gradients) -> None:
            self.inner_optimizer.apply(self._unscale(grads, variables), variables)

        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            self._apply_or_skip(finite, lambda: update(grads), grads, variables)
            return

        # A branch that merges replicas, as the inner optimizer's update does, is only allowed
        # when the condition itself is evaluated across replicas.
        def across_replicas(
            strategy: "tf.distribute.Strategy", finite: Tensor, grads: Gradients
        ) -> None:
            def first(value: Tensor | None) -> Tensor | None:
                return None if value is None else strategy.experimental_local_results(value)[0]

            self._apply_or_skip(
                first(finite),
                lambda: strategy.extended.call_for_each_replica(update, args=(grads,)),
                [first(grad) for grad in grads],
                variables,
            )

        replica.merge_call(across_replicas, args=(finite, grads))

    def _apply_or_skip(
        self,
        finite: Tensor,
        update: Callable[[], object],
        grads: Gradients,
        variables: list[keras.Variable],
    ) -> None:
        def commit() -> None:
            is_rare = self._is_rare(self._snapshot())
            update()
            # One condition, as every one costs time, and after the update, which then need not
            # wait for whatever reads the weights.
            ops.cond(is_rare, measure_and_move, count)

        def count() -> None:
            self.step_counter.assign_add(1)

        def measure_and_move() -> None:
            now = self._snapshot()
            now = now._replace(iterations=now.iterations - 1)  # as they were before the update
            # Not `read`, which would copy each of them whole.
            weights = [variable.value for variable in self._trainable_variables]
            after, measured = rarely_run(self._after_rare_step)(
                now, read(self.gauges), self._all_of(grads, variables), weights
            )
            self._assign(after)
            self.gauges.assign(measured)

        def skip() -> None:
            after_skip = rarely_run(partial(transitions.after_skip, self.loss_scale))
            self._assign(after_skip(self._snapshot(), finite))

        ops.cond(ops.all(finite), commit, skip)

    def _assign(self, after: Transition) -> None:
        for variable, value in zip(self._scale_variables, after, strict=True):
            variable.assign(value)

    @property
    def _scale_variables(self) -> tuple[keras.Variable, keras.Variable, keras.Variable]:
        return self.dynamic_scale, self.step_counter, self.counters

    def _snapshot(self) -> Snapshot:
        # The bare counter, not `iterations`, which gradient accumulation divides.
        return Snapshot(*map(read, (*self._scale_variables, self.inner_optimizer._iterations)))

    # --- JAX: the whole step is a function from old values to new ones ---

    def stateless_apply(
        self,
        optimizer_variables: list[Tensor],
        grads: Gradients,
        trainable_variables: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """`apply` as a pure function, for JAX.

        Args:
            optimizer_variables: values of `self.variables`, in that order.
            grads: gradients of the scaled loss, one (or None) for each trainable variable.
            trainable_variables: values of the variables that the optimizer was built with.

        Returns:
            The new values of the trainable and of the optimizer variables.
        """
        if backend.backend() == "tensorflow":
            # Raises, with Keras's explanation.
            return super(keras.optimizers.LossScaleOptimizer, self).stateless_apply(
                optimizer_variables, grads, trainable_variables
            )
        wrapping.check_stateless(self, optimizer_variables, grads, trainable_variables)
        if not grads:
            return [], list(optimizer_variables)
        own_count = len(self._variables)
        if not self.enabled:
            trainable, inner = self.inner_optimizer.stateless_apply(
                list(optimizer_variables[own_count:]), list(grads), list(trainable_variables)
            )
            return list(trainable), [*optimizer_variables[:own_count], *inner]
        self._note_whether_scaled()
        mapping = list(zip(self.variables, optimizer_variables, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            grads = self._scaled_again(list(grads))

        def own_after(values: Transition, measured: Tensor) -> list[Tensor]:
            new = dict(zip(map(id, self._scale_variables), values, strict=True))
            new[id(self.gauges)] = measured
            return [
                new.get(id(variable), value)
                for variable, value in zip(self._variables, optimizer_variables, strict=False)
            ]

        def update() -> tuple[list[Tensor], list[Tensor]]:
            with keras.StatelessScope(state_mapping=mapping):
                now, gauges_before = self._snapshot(), read(self.gauges)
                unscaled = self._unscale(grads, self._trainable_variables)
            trainable, inner = self.inner_optimizer.stateless_apply(
                list(optimizer_variables[own_count:]), unscaled, list(trainable_variables)
            )
            after, measured = branch(
                self._is_rare(now),
                lambda: self._after_rare_step(now, gauges_before, grads, trainable),
                lambda: ((now.scale, now.streak + 1, now.counters), gauges_before),
            )
            return list(trainable), own_after(after, measured) + list(inner)

        def skip() -> tuple[list[Tensor], list[Tensor]]:
            with keras.StatelessScope(state_mapping=mapping):
                after = transitions.after_skip(self.loss_scale, self._snapshot(), finite)
                inner = list(optimizer_variables[own_count:])
                return list(trainable_variables), own_after(after, read(self.gauges)) + inner

        with keras.StatelessScope(state_mapping=mapping):
            finite = self._finite_flags(grads, self._trainable_variables, replicas=1)
        return branch(ops.all(finite), update, skip)

    def _apply_statelessly(self, grads: Gradients, variables: list[keras.Variable]) -> None:
        everything = self._trainable_variables
        trainable, own = self.stateless_apply(
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

    def measure_from_now(self, steps: int | None) -> None:
        """Measures the gradients of the next step that is traced, and of some later ones.

        Args:
            steps: the length of the training, which decides how often; None if it is unknown.
        """
        self._measure_every = gauges.interval_for(steps)
        self._measure_first = int(ops.convert_to_numpy(self.inner_optimizer._iterations))

    def _is_measured(self, now: Snapshot) -> Tensor:
        return gauges.is_due(now.iterations, self._measure_every, self._measure_first)

    def _is_rare(self, now: Snapshot) -> Tensor:
        """Whether more happens at a step that is applied than that it is counted."""
        measured = self._is_measured(now)
        moves = transitions.moves_after_finite(self.loss_scale, now)
        return measured if moves is False else ops.logical_or(moves, measured)

    def _after_rare_step(
        self,
        now: Snapshot,
        gauges_before: Tensor,
        grads: Gradients,
        weights: Sequence[Tensor],
    ) -> tuple[Transition, Tensor]:
        """The scale, the counters and the gauges after a step that was applied.

        Args:
            now: the snapshot before the step.
            gauges_before: the gauges before it.
            grads: the scaled gradients, one for each built variable.
            weights: the values of these variables after the step.
        """
        measured = branch(
            self._is_measured(now),
            lambda: gauges.measure(gauges_before, now.scale, now.iterations, grads, weights),
            lambda: gauges_before,
        )
        return transitions.after_finite(self.loss_scale, now), measured

    def _scale_now(self) -> Tensor:
        return read(self.dynamic_scale) if self.built else self.loss_scale.initial

    def _unscale(self, grads: Gradients, variables: Sequence[keras.Variable | None]) -> Gradients:
        scale = self._scale_now()
        return [
            grad
            if grad is None or self._overwrite_variable_with_gradient(variable)
            else gradients.unscale(grad, scale)
            for grad, variable in zip(grads, variables, strict=True)
        ]

    def _finite_flags(
        self, grads: Gradients, variables: Sequence[keras.Variable], replicas: int
    ) -> Tensor:
        """Boolean vector over the built variables; a missing gradient counts as finite."""
        places = [
            self._get_variable_index(variable)
            for grad, variable in zip(grads, variables, strict=True)
            if grad is not None
        ]
        verdicts = gradients.all_finite(
            [grad for grad in grads if grad is not None],
            read(self.dynamic_scale),
            self.loss_scale.floor,
            replicas,
        )
        flags: list[Tensor] = [True] * len(self._trainable_variables)
        for place, verdict in zip(places, verdicts, strict=True):
            flags[place] = verdict
        return ops.stack(flags)

    # --- saving ---

    def load_own_variables(self, store: Mapping[str, np.ndarray]) -> None:
        """Loads a checkpoint of this class, of Keras's own wrapper, or of the inner optimizer."""
        inner_count = len(self.inner_optimizer.variables)
        if self.built and len(store.keys()) == inner_count:
            self.inner_optimizer.load_own_variables(store)
            return
        older = self._older_variables(len(store.keys()) - inner_count) if self.built else []
        if older:
            targets = [*older, *self.inner_optimizer.variables]
            for index, variable in enumerate(targets):
                variable.assign(store[str(index)])
        else:
            super().load_own_variables(store)
        if self.built:
            saved = float(ops.convert_to_numpy(self.dynamic_scale))
            self.dynamic_scale.assign(self.loss_scale.restore(saved))

    def _older_variables(self, count: int) -> list[keras.Variable]:
        """The own variables in files of Keras's wrapper, or of this class without gauges."""
        for absent in ((self.gauges,), (self.gauges, self.counters)):
            left = [own for own in self._variables if all(own is not other for other in absent)]
            if len(left) == count:
                return left
        return []

    def get_config(self) -> KerasConfig:
        """Constructor arguments, in the form that Keras serializes."""
        serialize = keras.saving.serialize_keras_object
        switch = {} if self.enabled else {"enabled": False}
        return {
            "hint": _LOAD_HINT,
            "name": self.name,
            "inner_optimizer": serialize(self.inner_optimizer),
            "loss_scale": serialize(self.loss_scale),
            **switch,
        }

    @classmethod
    def from_config(
        cls, config: KerasConfig, custom_objects: dict[str, type] | None = None
    ) -> "LossScaleOptimizer":
        """Inverse of `get_config`; also takes a configuration of Keras's class.

        Those are of Keras 3, of Keras 2, and of TensorFlow 2.0 to 2.3.
        """
        config = migration.of_this_package(config)
        config.pop("hint", None)
        inner = config.pop("inner_optimizer")
        strategy = config.get("loss_scale")
        if isinstance(strategy, Mapping):
            config["loss_scale"] = keras.saving.deserialize_keras_object(
                strategy, custom_objects=custom_objects
            )
        return cls(keras.optimizers.deserialize(inner, custom_objects), **config)
