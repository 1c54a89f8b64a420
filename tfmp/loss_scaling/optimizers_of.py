"""The optimizers that a model holds: `compile`'s, and those of a `train_step` of one's own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
from keras import ops

from tfmp.loss_scaling import transitions
from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.strategies import StaticLossScale
from tfmp.shared.backend import Tensor, current_backend

# Attributes in which TensorFlow notes a model's other attributes for its checkpoints.
_OF_TENSORFLOW = "_self_"

# The attribute that `compile` sets.
MAIN = "optimizer"

# What is an optimizer or may hold one.
_HOLDING = (keras.optimizers.Optimizer, dict, list, tuple)


# An optimizer as users give it to `compile`.
Compiled: TypeAlias = keras.optimizers.Optimizer | str | None


@dataclass(frozen=True)
class Place:
    """A place where a model, or a layer in it, keeps an optimizer.

    Attributes:
        owner: the layer, dict or list that has it; for a tuple, the tuple's own place.
        key: the attribute's name, the key or the index.
        name: the place as code in `train_step` writes it, such as "self.optimizers['actor']".
    """

    owner: Any
    key: Any
    name: str

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer that is there now."""
        if isinstance(self.owner, keras.layers.Layer):
            return getattr(self.owner, self.key)
        container = self.owner.optimizer if isinstance(self.owner, Place) else self.owner
        return container[self.key]

    @property
    def holder(self) -> Any:
        """The layer, dict or list, whatever tuples lie between."""
        return self.owner.holder if isinstance(self.owner, Place) else self.owner

    @property
    def is_main(self) -> bool:
        """Whether `compile` put it there."""
        return isinstance(self.owner, keras.Model) and self.key == MAIN

    @property
    def in_config(self) -> Compiled:
        """The model's optimizer in its compile config; None for another."""
        return self.owner._compile_config.config.get(MAIN) if self.is_main else None

    def put(self, optimizer: keras.optimizers.Optimizer, in_config: Compiled = None) -> None:
        """Puts another optimizer there.

        Saving writes the compile config, not `model.optimizer`: without a wrapper in it, a reload
        would drop the scale, the counters and `iterations`.
        """
        if isinstance(self.owner, keras.layers.Layer):
            setattr(self.owner, self.key, optimizer)
            if self.is_main:
                self.owner._compile_config.config[MAIN] = in_config
        elif isinstance(self.owner, Place):
            items: list[Any] = list(self.owner.optimizer)
            items[self.key] = optimizer
            self.owner.put(tuple(items))
        else:
            self.owner[self.key] = optimizer


def main_place(model: keras.Model) -> Place:
    """The place of `model.optimizer`."""
    return Place(model, MAIN, f"self.{MAIN}")


def has_own_step(model: keras.Model) -> bool:
    """Whether `train_step` is not Keras's."""
    return not type(model).train_step.__module__.startswith("keras.")


def held_optimizers(model: keras.Model) -> list[Place]:
    """The places besides `model.optimizer` where a model keeps optimizers.

    Attributes of the model and of the layers in it are searched, and lists, tuples and dicts in
    them.
    """
    found: list[Place] = []
    of_keras = vars(keras.layers.Layer(name="any")).keys()
    for layer in model._flatten_layers():
        of_a_model = isinstance(layer, keras.Model)
        for name, value in list(vars(layer).items()):
            if name in of_keras or name.startswith(_OF_TENSORFLOW) or (of_a_model and name == MAIN):
                continue
            if isinstance(value, _HOLDING):
                owner = "self" if of_a_model else layer.name
                found += _places(layer, name, value, f"{owner}.{name}")
    return [place for place in found if place.optimizer is not getattr(model, MAIN, None)]


def _places(owner: Any, key: Any, value: Any, name: str) -> Iterator[Place]:
    if isinstance(value, keras.optimizers.Optimizer):
        yield Place(owner, key, name)
    elif not hasattr(value, "_fields"):
        inside = Place(owner, key, name) if isinstance(value, tuple) else value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for inner, item in list(items):
            if isinstance(item, _HOLDING):  # most are layers and variables
                yield from _places(inside, inner, item, f"{name}[{inner!r}]")


def scaled_optimizers(model: keras.Model) -> list[LossScaleOptimizer]:
    """The loss-scale optimizers of this package that a model holds, `model.optimizer` first."""
    every = [getattr(model, MAIN, None), *(place.optimizer for place in held_optimizers(model))]
    unique = {id(one): one for one in every if isinstance(one, LossScaleOptimizer)}
    return list(unique.values())


def watch_skips(optimizers: Iterable[LossScaleOptimizer]) -> Callable[[], Tensor]:
    """Begins to watch a step; call this before the step, under tracing, too.

    Args:
        optimizers: those that may apply gradients in the step.

    Returns:
        A function that tells after the step whether one of them skipped it: a boolean scalar.
    """
    watched = [(one, _skips(one)[0] if one.built else None) for one in optimizers]

    def is_skipped() -> Tensor:
        skipped: Tensor = False
        for optimizer, before in watched:
            if not optimizer.built:
                continue  # it had no part in the step
            skips, in_a_row = _skips(optimizer)
            # The step may have built it, and the same trace serves later ones.
            one = in_a_row > 0 if before is None else skips > before
            skipped = ops.logical_or(skipped, one)
        return skipped

    return is_skipped


def _skips(optimizer: LossScaleOptimizer) -> tuple[Tensor, Tensor]:
    """The skipped steps, and those since the last applied one."""
    counters = transitions.unpack(current_backend().read(optimizer.counters))
    iterations = current_backend().read(optimizer.inner_optimizer._iterations)
    return counters.skipped_steps, counters.consecutive_skips(iterations)


def check_losses_arrived(optimizers: list[LossScaleOptimizer]) -> None:
    """Accepts optimizers whose scaled losses met their own optimizer; called after a whole step.

    Raises:
        ValueError: gradients of a scaled loss went elsewhere.
    """
    for optimizer in optimizers:
        if optimizer.loss_waits and optimizer.loss_scale != StaticLossScale(1.0):
            raise ValueError(
                f"{optimizer.held_as} scaled a loss, but its gradients were applied by another "
                "optimizer, which does not divide them by the scale. Apply them with "
                f"{optimizer.held_as}. Or keep the other optimizer in an attribute of the model, "
                "and take the gradients of its own scale_loss(loss)."
            )
