"""A model for sweeps: other processes build it, too."""

import keras


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
    inner = [keras.Input((4,)), Wary(), hidden, keras.layers.Dense(1)]
    model = keras.Sequential(inner, name="sized")
    model.compile("sgd", "mse")
    return model
