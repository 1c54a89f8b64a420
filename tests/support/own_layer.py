"""A layer with code of a user's own."""

from collections.abc import Callable
from typing import Any

from keras import layers


class Own(layers.Layer):
    """A layer with the code of a function."""

    def __init__(self, function: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)
