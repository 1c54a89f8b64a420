"""A layer and a model with code of a user's own."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers


class Own(layers.Layer):
    """A layer with the code of a function."""

    def __init__(self, function: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


class OwnModel(keras.Model):
    """A model with the code of a function, which takes the model with its layers, and an input.

    Args:
        function: the code of `call`.
        parts: layers by name; a number stands for the units of a Dense layer.
    """

    def __init__(self, function: Callable[[Any, Any], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, layers.Dense(part, name=name) if isinstance(part, int) else part)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.function(self, x)  # Keras on TensorFlow hands `training` on to its layers
