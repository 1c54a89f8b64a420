"""Trains with the callback under MirroredStrategy on two virtual CPUs; prints JSON.

    python mirrored_callback.py LOG_FOLDER

A process of its own, because virtual devices must exist before TensorFlow initializes.
"""

import json
import sys

import keras
import keras_models
import numpy as np
import tensorflow as tf
from stacks import stack

import tfmp


def overflow(strategy: tf.distribute.Strategy) -> dict[str, object]:
    """A fit in which the sums of one layer pass 65504, on the second replica alone."""
    with strategy.scope():
        model = keras_models.overflowing_sums()
        model.compile(keras.optimizers.SGD(1e-6), "mse")
    # Batches of 8 and a last one of 1, which leaves the second replica with none.
    x = np.full((25, 8), 1.0, "float32")
    x[[4, 12, 20]] = 2000.0
    callback = tfmp.MixedPrecision("mixed_float16", on_nonfinite="keep_float32", loss_scale=2.0)
    model.fit(
        x, np.ones((25, 1)), batch_size=8, epochs=4, shuffle=False, verbose=0, callbacks=[callback]
    )
    return {
        "dtypes": {layer.name: layer.compute_dtype for layer in model.layers},
        "events": [event.text for event in callback.report.events],
        "steps": callback.report.steps,
    }


def layers_states(strategy: tf.distribute.Strategy) -> list[list[float]]:
    """Each replica's moving means after a fit in which the second alone overflows, and is skipped.

    The first layer's mean is each replica's own, the second's is one over the replicas.
    """
    with strategy.scope():
        layers = keras.layers
        first, norm = layers.Dense(2, kernel_initializer="ones"), layers.BatchNormalization(-1, 0.5)
        sgd = keras.optimizers.SGD(1e-3)
        model = stack(first, norm, OneMean(), 1, inputs=(8,), optimizer=sgd, loss="mse")
    x = np.full((24, 8), 1.0, "float32")
    x[12] = 3e4  # its sums are infinite in float16
    callback = tfmp.MixedPrecision("mixed_float16", loss_scale=2.0)
    model.fit(x, x[:, :1], batch_size=8, shuffle=False, verbose=0, callbacks=[callback])
    assert callback.report.skipped_steps == 1
    means = model.layers[1].moving_mean, model.layers[2].mean
    local = [strategy.experimental_local_results(mean.value) for mean in means]
    return [[float(np.ravel(one)[0]) for one in values] for values in local]


class OneMean(keras.layers.Layer):
    """Keeps a mean that the replicas share."""

    def build(self, shape):
        self.mean = self.add_weight(
            (), "zeros", trainable=False, aggregation="mean", autocast=False
        )

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(
                0.5 * self.mean + 0.5 * (tf.reduce_sum(tf.cast(inputs, "float32")) + 8)
            )
        return inputs


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    keras.utils.set_random_seed(1)
    with strategy.scope():
        hidden = keras.layers.Dense(8, activation="relu", name="hidden")
        model = stack(hidden, 1, optimizer=keras.optimizers.Adam(0.01), loss="mse")
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    model.fit(x, y, batch_size=16, epochs=1, verbose=0)
    x[3] = np.nan  # on one replica, in the first of four steps

    callback = tfmp.MixedPrecision("mixed_float16", log_dir=sys.argv[1])
    history = model.fit(
        x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[callback]
    )
    kernel = strategy.experimental_local_results(model.layers[0].kernel.value)
    result = {
        "history": {name: list(map(float, values)) for name, values in history.history.items()},
        "dtypes": [layer.compute_dtype for layer in model.layers],
        "iterations": int(model.optimizer.iterations.numpy()),
        "replicas_agree": bool(np.array_equal(kernel[0], kernel[-1])),
        "weights_finite": all(bool(np.isfinite(w).all()) for w in model.get_weights()),
        "report": str(callback.report),
    }
    tfmp.revert(model)
    model.fit(x[8:], y[8:], batch_size=16, verbose=0)
    result["after_revert"] = [type(model.optimizer).__name__, model.layers[0].compute_dtype]
    result["overflow"] = overflow(strategy)
    result["layers_states"] = layers_states(strategy)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
