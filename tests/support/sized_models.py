"""Models of any width, for sweeps: other processes build them, too."""

import keras


def build(width: int) -> keras.Model:
    """A small network with so many hidden units; 13 is refused."""
    if width == 13:
        raise ValueError("13 brings bad luck")
    hidden = keras.layers.Dense(width, "relu")
    model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(1)], name="sized")
    model.compile("sgd", "mse")
    return model


def small() -> keras.Model:
    """The network with eight hidden units."""
    return build(8)
