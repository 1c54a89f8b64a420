"""LossScaleOptimizer: keeps small gradients inside FP16, and weights away from non-finite ones."""

import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import backend, ops

from tfmp.loss_scaling import gauges, gradients, migration, wrapping
from tfmp.loss_scaling.steps import Gradients, ScaledSteps
from tfmp.loss_scaling.strategies import (
    KerasConfig,
    LossScale,
    StaticLossScale,
)
from tfmp.loss_scaling.transitions import packed_size
from tfmp.shared.backend import Tensor, current_backend

# Keras shows the configuration of a class that it cannot find, and packages cannot announce theirs.
_LOAD_HINT = "import tfmp before keras.models.load_model, or load the model with compile=False"


class UnscaledLossWarning(UserWarning):
    """Gradients reached the optimizer, but no code had scaled the loss or read the scale."""


@keras.saving.register_keras_serializable(package="tfmp")
class LossScaleOptimizer(migration.InnerNames, migration.KerasNames, ScaledSteps):
    """Scales the loss, unscales the gradients, and skips steps whose gradients are not finite.

        scaled_loss = optimizer.scale_loss(loss)             # loss * scale
        gradients = d(scaled_loss) / d(variables)
        optimizer.apply(gradients, variables)                # divides by scale, checks, applies

    `fit` makes these calls itself. The gradients that will be applied are checked: under a
    distribution strategy the verdict is all-reduced, so every replica and worker takes the same
    branch. A skipped step changes no trainable weight, no moment and not the inner optimizer's
    `iterations`. Its other attributes are read and set through this object.

    All counters live in variables on the device and are saved with the optimizer;
    `tfmp.loss_scaling.telemetry.read_counters` reads them.

    Attributes:
        inner_optimizer: the optimizer that applies the unscaled gradients.
        loss_scale: the strategy object.
        dynamic_scale: float32 variable with the current scale; code that reads it may scale by it.
        step_counter: integer variable with the finite steps since the last growth or skip.
        counters: integer variable with all other counters; see `tfmp.loss_scaling.transitions`.
        gauges: float32 variable with measurements of gradients; see `tfmp.loss_scaling.gauges`.
        loss_was_scaled: None until gradients arrive; then whether `scale_loss` had been called or
            `dynamic_scale` read.
        held_as: the optimizer's name in the code of its model.
        loss_waits: whether `scale_loss` was called, and its gradients have not arrived yet.
        was_unscaled: whether code called `unscale`.

    Args:
        inner_optimizer: a `keras.optimizers.Optimizer`, built or not; a built one keeps its
            moments and iterations.
        loss_scale: "dynamic", a number (static) or a strategy object.
        name: name of this optimizer.
        **kwargs: in place of `loss_scale`, the arguments of Keras's class: `initial_scale` and
            `dynamic_growth_steps` of a dynamic scale, and `dynamic`.

    Raises:
        TypeError: `inner_optimizer` is not an optimizer.
        ValueError: `inner_optimizer` is wrapped already or scales the loss itself, or `loss_scale`
            or another argument is unknown.
    """

    # Names that an inner optimizer may have, too: those on this object are its own.
    initial_scale: float
    dynamic_growth_steps: int | None
    held_as: str
    loss_waits: bool
    loss_was_scaled: bool | None
    was_unscaled: bool

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: LossScale | float | str = "dynamic",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        strategy = migration.strategy_of(loss_scale, kwargs)
        wrapping.check_inner(inner_optimizer)
        with current_backend().creation_scope(inner_optimizer):
            super().__init__(inner_optimizer, initial_scale=strategy.initial, name=name)
        # Keras's attribute: no other strategy has such a number.
        self.dynamic_growth_steps = getattr(strategy, "growth_interval", None)
        self.loss_scale = strategy
        # Per replica, the gradients that `unscale` was given; they may be applied as well.
        self._given_to_unscale: dict[int, Gradients] = {}
        self.loss_was_scaled = None
        self._scale_is_known = self.loss_waits = self.was_unscaled = self._is_watched = False
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
        with current_backend().creation_scope(inner):
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
            # From NumPy: of Keras's initializers JAX compiles a program for each shape.
            initializer=lambda shape, dtype: current_backend().from_numpy(
                np.full(shape, value, dtype)
            ),
            aggregation="none",
            name=name,
        )
        setattr(self, name, variable)

    @property
    def dynamic_scale(self) -> keras.Variable:
        """The current scale. Reading it counts as scaling: a step may multiply its loss by it."""
        scale = self.scale_variable
        self._scale_is_known = True
        return scale

    @dynamic_scale.setter
    def dynamic_scale(self, variable: keras.Variable) -> None:
        object.__setattr__(self, "scale_variable", variable)

    def unwrap(self) -> keras.optimizers.Optimizer:
        """Returns the inner optimizer with its moments; it may be wrapped again."""
        wrapping.release(self.inner_optimizer)
        return self.inner_optimizer

    @current_backend().without_autograph
    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss times the current scale; take the gradients of this result.

        Args:
            loss: scalar or tensor of losses, any float dtype.

        Returns:
            Same shape, at least float32: the scale itself may not fit into FP16.
        """
        self._scale_is_known = self.loss_waits = True
        self._given_to_unscale.pop(current_backend().replica_index(), None)
        scale = self._scale_now()
        if backend.is_float_dtype(getattr(loss, "dtype", "float32")):
            loss = ops.cast(loss, backend.result_type(getattr(loss, "dtype", float), "float32"))
        return ops.multiply(loss, scale)

    @current_backend().without_autograph
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
            grads: gradients of the scaled loss, each a tensor, None or a sparse gradient.
            trainable_variables: their variables; by default those that the optimizer was built
                with.

        Returns:
            The gradients of the loss itself, at least in float32.

        Raises:
            ValueError: it was called before for these gradients.
        """
        grads = list(grads)
        replica = current_backend().replica_index()
        if replica in self._given_to_unscale:
            raise ValueError(
                "LossScaleOptimizer.unscale expects one call between scale_loss and apply, received"
                " a second: gradients would be divided twice. Call apply(gradients, variables) "
                "with the result of the first, or begin the next step with scale_loss(loss)."
            )
        self._given_to_unscale[replica] = grads
        self.was_unscaled = True
        variables = self._trainable_variables if self.built else []
        if trainable_variables is not None:
            variables = list(trainable_variables)
        if len(variables) != len(grads):
            variables = [None] * len(grads)
        unscaled = self._unscale(grads, variables, self._scale_now())
        return [
            new if new is None or new is old else gradients.not_finite_as_nan(new)
            for old, new in zip(grads, unscaled, strict=True)
        ]

    def _scaled_again(self, grads: Gradients) -> Gradients:
        """The gradients as `apply` is to divide them, if some have been divided already."""
        given = self._given_to_unscale.pop(current_backend().replica_index(), None)
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
        """Forgets earlier calls of `scale_loss`; call this before a step is traced.

        Where it runs eagerly instead, a step that scales no loss has a scale of 1 from then on.
        """
        self._is_watched = True
        self._scale_is_known = self.loss_waits = False
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

    @current_backend().without_autograph
    def apply(
        self,
        grads: Iterable[Tensor | None],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> None:
        """Unscales and applies gradients of the scaled loss, or skips the step.

        Args:
            grads: one gradient (or None, or a sparse one) for each variable.
            trainable_variables: the variables; by default those that the optimizer was built with.
        """
        grads = list(grads)
        if not grads:
            return
        variables = self._variables_for(grads, trainable_variables)
        self._note_whether_scaled()
        grads = self._scaled_again(grads)
        if current_backend().is_stateless:
            self._apply_statelessly(grads, variables)
        else:
            self._apply_in_place(grads, variables)

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
        if self.loss_was_scaled is None and not self._scale_is_known and not harmless:
            own = current_backend()
            is_eager = not own.is_stateless and own.is_concrete(self.scale_variable * 1.0)
            if self._is_watched and is_eager:
                self.loss_was_scaled, self.loss_scale = False, StaticLossScale(1.0)
                self.scale_variable.assign(1.0)
                return
            warnings.warn(
                "LossScaleOptimizer received gradients, but scale_loss() was never called. They "
                "will be divided by a loss scale that never multiplied the loss, and training "
                "almost stops. In train_step or the training loop, take the gradients of "
                "optimizer.scale_loss(loss) instead of loss.",
                UnscaledLossWarning,
                stacklevel=4,
            )
        self.loss_was_scaled = self._scale_is_known

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
        if not current_backend().is_stateless:
            # Raises, with Keras's explanation, on TensorFlow.
            return super(keras.optimizers.LossScaleOptimizer, self).stateless_apply(
                optimizer_variables, grads, trainable_variables
            )
        wrapping.check_stateless(self, optimizer_variables, grads, trainable_variables)
        if not grads:
            return [], list(optimizer_variables)
        self._note_whether_scaled()
        mapping = list(zip(self.variables, optimizer_variables, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            grads = self._scaled_again(list(grads))
        return self._stateless_step(optimizer_variables, grads, trainable_variables)

    def measure_from_now(self, steps: int | None) -> None:
        """Measures the gradients of the next step that is traced, and of some later ones.

        Args:
            steps: the length of the training, which decides how often; None if it is unknown.
        """
        self._measure_every = gauges.interval_for(steps)
        self._measure_first = int(ops.convert_to_numpy(self.inner_optimizer._iterations))

    def measure_nothing(self) -> None:
        """Leaves the gauges, which few steps take, out of steps that are traced from now on."""
        self._measure_every = 0

    # --- saving ---

    def load_own_variables(self, store: Mapping[str, np.ndarray]) -> None:
        """Loads a checkpoint of this class, of Keras's own wrapper, or of the inner optimizer."""
        if not self.built:
            super().load_own_variables(store)
            return
        inner, saved = self.inner_optimizer.variables, len(store.keys())
        if saved == len(inner):
            self.inner_optimizer.load_own_variables(store)
            return
        added = id(self.counters), id(self.gauges)
        of_keras = [*(own for own in self._variables if id(own) not in added), *inner]
        if saved == len(of_keras):
            for index, variable in enumerate(of_keras):
                variable.assign(store[str(index)])
        else:
            super().load_own_variables(store)
        scale = float(ops.convert_to_numpy(self.scale_variable))
        self.scale_variable.assign(self.loss_scale.restore(scale))

    def get_config(self) -> KerasConfig:
        """Constructor arguments, in the form that Keras serializes."""
        serialize = keras.saving.serialize_keras_object
        return {
            "hint": _LOAD_HINT,
            "name": self.name,
            "inner_optimizer": serialize(self.inner_optimizer),
            "loss_scale": serialize(self.loss_scale),
        }

    @classmethod
    def from_config(
        cls, config: KerasConfig, custom_objects: dict[str, type] | None = None
    ) -> "LossScaleOptimizer":
        """Inverse of `get_config`; also takes a configuration of Keras's class.

        Those are of Keras 3 and of Keras 2.
        """
        config = migration.of_this_package(config)
        config.pop("hint", None)
        inner = config.pop("inner_optimizer")
        strategy = config.get("loss_scale")
        if isinstance(strategy, Mapping):
            config["loss_scale"] = keras.saving.deserialize_keras_object(
                strategy, custom_objects=custom_objects
            )
        # By its module Keras finds every optimizer; by a name alone, as in older files, some.
        read = keras.saving.deserialize_keras_object
        if not inner.get("module"):
            read = keras.optimizers.deserialize
        return cls(read(inner, custom_objects=custom_objects), **config)
