"""One worker of a MultiWorkerMirroredStrategy training; prints what came of it as JSON.

    TF_CONFIG=... python worker_fit.py

Only the second worker's data is poisoned. A verdict that differs between workers would leave one
of them waiting in an all-reduce that the other never joins.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters


def main() -> None:
    # Before anything else that touches a device.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = keras.Variable([1.0, 1.0])
        optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.1))
        optimizer.build([weight])

    @tf.function
    def step(value):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(weight.value * value))
        optimizer.apply(tape.gradient(loss, [weight.value]), [weight])

    worker = strategy.cluster_resolver.task_id
    for index in range(6):
        poisoned = worker == 1 and index in (1, 2, 4)
        value = tf.constant([1.0, float("nan") if poisoned else 2.0 + worker])
        strategy.run(step, args=(value,))
    counters = read_counters(optimizer)
    result = {
        "weights": weight.numpy().tolist(),
        "finite": bool(np.isfinite(weight.numpy()).all()),
        "scale": counters.loss_scale,
        "skipped": counters.skipped_steps,
        "iterations": int(optimizer.iterations.numpy()),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
