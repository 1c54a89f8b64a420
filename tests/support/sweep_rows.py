"""What a row of the sweep is, and models of one layer or one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

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


def one_layer(
    make: Callable[[], Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one layer on inputs of these shapes (without the batch axis)."""
    return one_call(lambda *xs: make()(list(xs) if len(xs) > 1 else xs[0]), *shapes, dtype=dtype)


def one_call(
    call: Callable[..., Any], *shapes: tuple[int | None, ...], dtype: str = "float32"
) -> Build:
    """A model of one function on inputs of these shapes."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = [keras.Input(shape, dtype=dtype, name=f"x{i}") for i, shape in enumerate(shapes)]
        return keras.Model(inputs, call(*inputs))

    return build


IMAGE, VOLUME, STEPS, FLAT = (12, 12, 6), (6, 6, 6, 3), (10, 6), (6,)
