"""A model for sweeps: other processes build it, too."""

import keras
from stacks import stack


@keras.saving.register_keras_serializable()
class Wary(keras.layers.Layer):
    """Refuses a batch of 13."""

    def call(self, inputs):
        if inputs.shape[0] == 13:
            raise ValueError("13 brings bad luck")
        return inputs


def small() -> keras.Model:
    """A network with eight hidden units."""
    hidden = keras.layers.Dense(8, "relu")
    return stack(Wary(), hidden, 1, name="sized", optimizer="sgd", loss="mse")
