"""Models of layers one after another."""

from typing import Any

import keras
from keras import layers


def stack(
    *parts: int | layers.Layer, inputs: tuple[int, ...] = (4,), name: str | None = None, **how: Any
) -> keras.Sequential:
    """A sequential model.

    Args:
        parts: its layers; a number stands for the units of a Dense layer.
        inputs: the shape of a sample.
        name: of the model.
        how: what `compile` is given; without any the model is not compiled.
    """
    made = [layers.Dense(part) if isinstance(part, int) else part for part in parts]
    model = keras.Sequential([layers.Input(inputs), *made], name=name)
    if how:
        model.compile(**how)
    return model
