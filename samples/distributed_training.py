"""Two replicas, one decision: a step that overflows on one replica is skipped on both.

On a machine without two GPUs the CPU serves as two devices.

Run: python samples/distributed_training.py
"""

import keras
import numpy as np
import tensorflow as tf

import tfmp


def two_devices() -> list[str]:
    """Two GPUs, or a CPU as two."""
    if len(tf.config.list_physical_devices("GPU")) >= 2:
        return ["GPU:0", "GPU:1"]
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [half] * 2
    )
    return ["CPU:0", "CPU:1"]


def main() -> None:
    """Trains under MirroredStrategy on data with a row that is too large for FP16."""
    keras.utils.set_random_seed(0)
    strategy = tf.distribute.MirroredStrategy(two_devices())
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.SGD(1e-4), "mse")

    x = np.random.default_rng(0).standard_normal((128, 8)).astype("float32")
    x[100] = 60000.0  # the second replica's half of the last batch gets this row
    y = x.sum(axis=1, keepdims=True)

    callback = tfmp.MixedPrecision("mixed_float16")
    model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0, callbacks=[callback])

    print(callback.report, "\n")
    finite = all(np.isfinite(weight).all() for weight in model.get_weights())
    print(f"{strategy.num_replicas_in_sync} replicas; all weights finite: {finite}")


if __name__ == "__main__":
    main()
