"""Trains with the callback under MirroredStrategy on two virtual CPUs; prints JSON.

    python mirrored_callback.py LOG_FOLDER

A process of its own, because virtual devices must exist before TensorFlow initializes.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import tfmp


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Dense(8, activation="relu", name="hidden"),
                keras.layers.Dense(1, name="out"),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse")
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
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
