"""Names, arguments and configurations of other loss scalers: Keras 3's, Keras 2's, PyTorch's."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfmp.loss_scaling.strategies import (
    DynamicLossScale,
    KerasConfig,
    LossScale,
    StaticLossScale,
    as_loss_scale,
)
from tfmp.shared.arguments import check_flag
from tfmp.shared.backend import Tensor

if TYPE_CHECKING:
    from keras import Variable

# Arguments of Keras's base optimizer, with the values that its older files have for a wrapper. They
# never had an effect there.
_BASE_DEFAULTS: Mapping[str, object] = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
_INNER = "inner_optimizer"
_KERAS_ARGUMENTS = ("initial_scale", "dynamic_growth_steps", "dynamic")


def _of_inner(name: str) -> Any:
    """A property for an argument that the base class sets on every optimizer, and a wrapper lacks.

    The others, such as `use_ema`, decide which variables the base class makes for an optimizer.
    """

    def get(wrapper: object) -> object:
        inner = vars(wrapper).get(_INNER)
        return _BASE_DEFAULTS[name] if inner is None else getattr(inner, name)

    def put(wrapper: object, value: object) -> None:
        if _INNER in vars(wrapper):
            setattr(vars(wrapper)[_INNER], name, value)

    return property(get, put)


class InnerNames:
    """The attributes of the inner optimizer, which callbacks read and set on `model.optimizer`."""

    weight_decay = _of_inner("weight_decay")
    clipnorm = _of_inner("clipnorm")
    global_clipnorm = _of_inner("global_clipnorm")
    clipvalue = _of_inner("clipvalue")

    def __getattr__(self, name: str) -> Any:
        inner = vars(self).get(_INNER)
        if inner is None or self._is_own(name) or not hasattr(inner, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(inner, name)

    def __setattr__(self, name: str, value: object) -> None:
        inner = vars(self).get(_INNER)
        if name in vars(self) or inner is None or self._is_own(name) or not hasattr(inner, name):
            super().__setattr__(name, value)
        else:
            setattr(inner, name, value)

    def _is_own(self, name: str) -> bool:
        """Whether a name means an attribute of the wrapper, though it may not be set yet."""
        classes = map(vars, type(self).__mro__)
        return name.startswith("_") or any(
            name in known or name in known.get("__annotations__", ()) for known in classes
        )


class KerasNames:
    """The methods that Keras 2's `LossScaleOptimizer` had, for the class of this package."""

    if TYPE_CHECKING:
        scale_loss: Callable[[Tensor], Tensor]
        unscale: Callable[..., list[Tensor | None]]

    def get_scaled_loss(self, loss: Tensor | Callable[[], Tensor]) -> Tensor | Callable[[], Tensor]:
        """`scale_loss`, as Keras 2 called it; of a function, it makes one of the scaled loss."""
        if callable(loss):
            return lambda: self.scale_loss(loss())
        return self.scale_loss(loss)

    def get_unscaled_gradients(
        self, grads: list[Tensor | None], trainable_variables: "list[Variable] | None" = None
    ) -> list[Tensor | None]:
        """`unscale`, as Keras 2 called it: the step after it no longer divides its gradients."""
        return self.unscale(grads, trainable_variables)


def strategy_of(loss_scale: LossScale | float | str, others: dict[str, Any]) -> LossScale:
    """The strategy that the arguments of a `LossScaleOptimizer` ask for together.

    Args:
        loss_scale: this package's argument.
        others: all other arguments: Keras's `initial_scale`, `dynamic_growth_steps` and `dynamic`.

    Raises:
        ValueError: an argument is unknown, belongs on the inner optimizer, or contradicts another.
    """
    _refuse_unknown(others)
    given = {name: others[name] for name in _KERAS_ARGUMENTS if others.get(name) is not None}
    if not given or (len(given) == 1 and given.get("dynamic") is True):
        return as_loss_scale(loss_scale)
    if loss_scale != "dynamic":
        name, value = next(iter(given.items()))
        raise ValueError(
            f"LossScaleOptimizer expects loss_scale or Keras's {name}, received both: "
            f"loss_scale={loss_scale!r} and {name}={value!r}. Leave one of them out."
        )
    return _from_keras(**given)


def _from_keras(
    initial_scale: float | None = None,
    dynamic_growth_steps: int | None = None,
    dynamic: bool = True,
) -> LossScale:
    hint = "For a strategy, pass it as loss_scale."
    check_flag("LossScaleOptimizer(dynamic=...)", dynamic, hint)
    if not dynamic:
        if initial_scale is None or dynamic_growth_steps is not None:
            raise ValueError(
                "LossScaleOptimizer expects dynamic=False with initial_scale and without "
                f"dynamic_growth_steps, received initial_scale={initial_scale!r} and "
                f"dynamic_growth_steps={dynamic_growth_steps!r}. Pass loss_scale=1024.0 for a "
                "fixed scale, or leave this wrapper out and set `loss_scale_factor` on the inner "
                "optimizer."
            )
        return StaticLossScale(initial_scale)
    options: dict[str, Any] = {}
    if initial_scale is not None:
        default = DynamicLossScale()
        # A scale that starts outside the usual bounds was wanted there.
        options = {
            "initial": initial_scale,
            "min_scale": _bound(min, initial_scale, default.min_scale),
            "max_scale": _bound(max, initial_scale, default.max_scale),
        }
    if dynamic_growth_steps is not None:
        options["growth_interval"] = dynamic_growth_steps
    return DynamicLossScale(**options)


def _bound(choose: Callable[[float, float], float], initial: object, usual: float) -> float:
    """A bound of the scale that lets a positive `initial` in; the strategy refuses all others."""
    is_scale = isinstance(initial, int | float) and initial > 0
    return choose(float(initial), usual) if is_scale else usual  # type: ignore[arg-type]


def _refuse_unknown(others: Mapping[str, object]) -> None:
    for name in _BASE_DEFAULTS:
        if name in others:
            raise ValueError(
                f"LossScaleOptimizer expects {name} on the `inner_optimizer`, received "
                f"{name}={others[name]!r} itself. The inner optimizer sees unscaled gradients: "
                f"LossScaleOptimizer(Adam({name}={others[name]!r}))."
            )
    unknown = [name for name in others if name not in _KERAS_ARGUMENTS]
    if unknown:
        raise ValueError(
            "LossScaleOptimizer expects inner_optimizer, loss_scale and name, or Keras's "
            f"{', '.join(_KERAS_ARGUMENTS)}, received arguments: `{'`, `'.join(unknown)}`. "
            "Options of the update belong on the inner optimizer."
        )


def of_this_package(config: Mapping[str, Any]) -> KerasConfig:
    """A configuration of Keras's wrapper, as this class takes it.

    Arguments of the base optimizer are dropped where they have their defaults; the constructor
    refuses others.
    """
    config = dict(config)
    for name, default in _BASE_DEFAULTS.items():
        if config.get(name, default) == default:
            config.pop(name, None)
    return config
