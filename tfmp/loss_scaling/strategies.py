"""Loss-scale strategies: the moves of the scale after a finite step and after a skipped one.

A strategy is a frozen, serializable description. Its two transition functions are pure: they map
one `ScaleState` of backend tensors to the next, so the same code runs eagerly, inside
`tf.function`, under XLA and inside `jax.jit`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from tfmp.shared.arguments import check_count, check_number
from tfmp.shared.backend import Tensor
from tfmp.shared.wording import shown

# The least number of FP16: a lower scale would be 0 there.
_LOWEST_SCALE = 2.0**-24

# The arguments of a constructor, as Keras writes them into files.
KerasConfig: TypeAlias = dict[str, Any]


class ScaleState(NamedTuple):
    """The memory of a strategy between steps, as scalar backend tensors.

    Attributes:
        scale: float32, the scale of the step just taken.
        streak: integer, finite steps since the last growth or skip.
        strikes: integer, skipped steps since the last growth.
        steps: integer, the inner optimizer's iterations plus the skipped steps.

    A transition receives counts that include the step just taken, and returns the scale of the
    next one.
    """

    scale: Tensor
    streak: Tensor
    strikes: Tensor
    steps: Tensor


class LossScale:
    """Base class of strategies for `LossScaleOptimizer`; subclass it to write your own.

    A subclass is a frozen dataclass, registered with Keras so that models that use it can be
    saved.
    """

    @property
    def initial(self) -> float:
        """Scale of the very first step."""
        raise NotImplementedError

    @property
    def floor(self) -> float:
        """Lower bound of every scale of this strategy."""
        return 0.0

    def moves_after_finite(self, state: ScaleState) -> Tensor | bool:
        """Whether `after_finite` changes the state: a boolean tensor, or False for never."""
        raise NotImplementedError

    def after_finite(self, state: ScaleState) -> ScaleState:
        """State after a step that was applied; called if `moves_after_finite` is true."""
        raise NotImplementedError

    def after_skip(self, state: ScaleState) -> ScaleState:
        """State after a step that was skipped."""
        raise NotImplementedError

    def restore(self, saved: float) -> float:
        """Scale to continue with after a checkpoint that has the scale `saved`."""
        return saved

    def get_config(self) -> KerasConfig:
        """Constructor arguments, in the form that Keras serializes."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: KerasConfig) -> "LossScale":
        """Inverse of `get_config`."""
        return cls(**config)


@keras.saving.register_keras_serializable(package="tfmp")
@dataclass(frozen=True)
class DynamicLossScale(LossScale):
    """Grows the scale while gradients stay finite, backs off when they do not.

        finite step:   streak += 1
                       if streak == growth_interval:
                           scale = min(scale * growth_factor, max_scale)
                           streak = strikes = 0
        skipped step:  streak = 0; strikes += 1
                       if strikes >= hysteresis:
                           scale = max(scale * backoff_factor, min_scale)

    A scale that began at the usual `initial` falls faster before the first step that is applied:
    the second skip counts as two, and each later one as four. A loss that needs 1 then costs 5
    steps instead of 15, and the scale ends at most three halvings below the highest one that fits.

    Micikevicius et al., "Mixed Precision Training" (ICLR 2018), section 3.2, describe the scheme.
    With `hysteresis` above 1 the first skips after a growth do not change the scale: one odd batch
    then does not cost `growth_interval` steps to recover from.

    Attributes:
        initial: scale of the first step.
        growth_interval: finite steps in a row before the scale grows.
        growth_factor: factor that the scale grows by.
        backoff_factor: factor that a skipped step multiplies the scale by.
        min_scale: lower bound of the scale.
        max_scale: upper bound of the scale.
        hysteresis: skipped steps since the last growth before the scale backs off.
    """

    initial: float = 2.0**15
    growth_interval: int = 2000
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    min_scale: float = 1.0
    max_scale: float = 2.0**24
    hysteresis: int = 1

    def __post_init__(self) -> None:
        for name in ("initial", "min_scale", "max_scale"):
            _check_scale(f"DynamicLossScale({name}=...)", getattr(self, name))
        for name in ("growth_interval", "hysteresis"):
            check_count(f"DynamicLossScale({name}=...)", getattr(self, name))
        if not self.min_scale <= self.initial <= self.max_scale:
            raise ValueError(
                "DynamicLossScale expects min_scale <= initial <= max_scale, received "
                f"min_scale={self.min_scale!r}, initial={self.initial!r}, "
                f"max_scale={self.max_scale!r}. Widen the bounds or move `initial` between them."
            )
        check_number(
            "DynamicLossScale(growth_factor=...)",
            self.growth_factor,
            least=1,
            hint="2.0 is usual; 1.0 never grows.",
        )
        check_number(
            "DynamicLossScale(backoff_factor=...)",
            self.backoff_factor,
            above=0,
            below=1,
            hint="0.5 is usual.",
        )

    @property
    def floor(self) -> float:
        return self.min_scale

    def moves_after_finite(self, state: ScaleState) -> Tensor | bool:
        return state.streak >= self.growth_interval

    def after_finite(self, state: ScaleState) -> ScaleState:
        return state._replace(
            scale=ops.minimum(state.scale * self.growth_factor, self.max_scale),
            streak=ops.zeros_like(state.streak),
            strikes=ops.zeros_like(state.strikes),
        )

    def after_skip(self, state: ScaleState) -> ScaleState:
        skips = state.strikes - self.hysteresis + 1
        factor: Tensor | float = self.backoff_factor
        if self.initial == DynamicLossScale.initial:  # which nobody chose for this training
            once, twice, often = (self.backoff_factor**power for power in (1, 2, 4))
            faster = ops.where(skips > 2, often, ops.where(skips > 1, twice, once))
            # As many strikes as steps: no step was applied yet.
            factor = ops.where(ops.equal(state.strikes, state.steps), faster, once)
            factor = ops.cast(factor, "float32")
        lowered = ops.maximum(state.scale * factor, self.min_scale)
        return state._replace(scale=ops.where(skips > 0, lowered, state.scale))

    def restore(self, saved: float) -> float:
        # A checkpoint of Keras's own optimizer may hold 0 or infinity, and no step fixes those.
        if math.isnan(saved):
            return self.initial
        return min(max(saved, self.min_scale), self.max_scale)


@keras.saving.register_keras_serializable(package="tfmp")
@dataclass(frozen=True)
class StaticLossScale(LossScale):
    """The same scale on every step; steps with non-finite gradients are still skipped.

    Attributes:
        scale: number that every loss is multiplied by. `tfmp.calibrate` measures a good one.
    """

    scale: float

    def __post_init__(self) -> None:
        _check_scale("StaticLossScale(scale)", self.scale)

    @property
    def initial(self) -> float:
        return self.scale

    @property
    def floor(self) -> float:
        return self.scale

    def moves_after_finite(self, state: ScaleState) -> Tensor | bool:
        return False

    def after_finite(self, state: ScaleState) -> ScaleState:
        return state

    def after_skip(self, state: ScaleState) -> ScaleState:
        return state

    def restore(self, saved: float) -> float:
        return self.scale


@keras.saving.register_keras_serializable(package="tfmp")
@dataclass(frozen=True)
class ScheduledLossScale(LossScale):
    """A scale set by hand: each entry holds from its step on, until the next one.

    Steps are counted by the optimizer's iterations, as for learning-rate schedules, plus the
    skipped steps: a scale that is too high cannot hold its own schedule up.

    Attributes:
        schedule: first step -> scale; it must have an entry for step 0.
    """

    schedule: Mapping[int, float] = field(hash=False)

    def __post_init__(self) -> None:
        where = "ScheduledLossScale(schedule)"
        if not isinstance(self.schedule, Mapping) or not self.schedule:
            raise ValueError(
                f"{where} expects a mapping from first step to scale such as "
                f"{{0: 1024.0, 1000: 4096.0}}, received {shown(self.schedule)}."
            )
        entries = {_as_step(where, step): scale for step, scale in self.schedule.items()}
        for step, scale in entries.items():
            _check_scale(f"{where} at step {step}", scale)
        if 0 not in entries:
            raise ValueError(
                f"{where} expects an entry for step 0, received steps {sorted(entries)}. "
                "Add the scale to start with, for example {0: 1024.0, ...}."
            )
        object.__setattr__(self, "schedule", dict(sorted(entries.items())))

    @property
    def initial(self) -> float:
        return self.schedule[0]

    @property
    def floor(self) -> float:
        return min(self.schedule.values())

    def moves_after_finite(self, state: ScaleState) -> Tensor | bool:
        return ops.not_equal(self._scale_at(state.steps), state.scale)

    def after_finite(self, state: ScaleState) -> ScaleState:
        return state._replace(scale=self._scale_at(state.steps))

    def after_skip(self, state: ScaleState) -> ScaleState:
        return state._replace(scale=self._scale_at(state.steps))

    def _scale_at(self, step: Tensor) -> Tensor:
        current = ops.convert_to_tensor(self.initial, dtype="float32")
        for first_step, scale in self.schedule.items():
            current = ops.where(step >= first_step, ops.cast(scale, "float32"), current)
        return current

    def get_config(self) -> KerasConfig:
        return {"schedule": {str(step): scale for step, scale in self.schedule.items()}}


def without_bound(strategy: LossScale) -> LossScale:
    """A dynamic scale with the usual lower bound, without it; any other strategy as it is.

    The bound keeps batches that no scale makes finite from ruining the scale of the others. It is
    too high where the loss itself is large.
    """
    if getattr(strategy, "min_scale", None) != DynamicLossScale.min_scale:
        return strategy
    return replace(strategy, min_scale=_LOWEST_SCALE)  # type: ignore[type-var]


def as_loss_scale(value: object) -> LossScale:
    """The strategy for a `loss_scale` argument.

    Args:
        value: "dynamic", a number (the static scale) or a strategy object.

    Raises:
        ValueError: the value is something else.
    """
    if isinstance(value, LossScale):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        return StaticLossScale(float(value))
    if value == "dynamic":
        return DynamicLossScale()
    raise ValueError(
        'loss_scale expects "dynamic", a positive number or one of DynamicLossScale, '
        f"StaticLossScale and ScheduledLossScale, received {shown(value)}."
    )


def _check_scale(name: str, value: object) -> None:
    hint = "Powers of two such as 2.0**15 scale without rounding."
    check_number(name, value, above=0, hint=hint)
    # Gradients are multiplied by the reciprocal: both have to be normal numbers of float32.
    check_number(name, value, least=2.0**-126, below=2.0**127, hint="It is kept in float32.")


def _as_step(where: str, value: object) -> int:
    """A step of a schedule; JSON turns the steps of a saved schedule into strings."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return check_count(f"A step of {where}", value, least=0)
