"""What a row of the sweep is, and models of one layer or one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

Build = Callable[[], keras.Model]


@dataclass(frozen=True)
class Row:
    """A model of the sweep.

    Attributes:
        group: "layers", "activations", "ops", "sequences" or "applications".
        name: what is swept, such as "Conv2D groups=3".
        build: makes the model, seeded.
    """

    group: str
    name: str
    build: Build

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def named_inputs(shapes: tuple[tuple[int | None, ...], ...], dtype: str) -> list[Any]:
    return [keras.Input(shape, dtype=dtype, name=f"x{i}") for i, shape in enumerate(shapes)]


def one_layer(
    make: Callable[[], Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one layer on inputs of these shapes (without the batch axis)."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = named_inputs(shapes, dtype)
        outputs = make()(inputs if len(inputs) > 1 else inputs[0])
        return keras.Model(inputs, outputs)

    return build


def one_call(
    call: Callable[..., Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one function on inputs of these shapes."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = named_inputs(shapes, dtype)
        return keras.Model(inputs, call(*inputs))

    return build


IMAGE, VOLUME, STEPS, FLAT = (12, 12, 6), (6, 6, 6, 3), (10, 6), (6,)


class Function(layers.Layer):
    """A function of one tensor as a layer, traced inside the model's call."""

    def __init__(self, function: Callable[[Any], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)

    def compute_output_shape(self, shape: tuple) -> tuple:
        return shape
