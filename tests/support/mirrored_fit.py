"""Trains under MirroredStrategy on two virtual CPUs; prints what came of it as JSON.

    python mirrored_fit.py SEEDS

A process of its own, because virtual devices must exist before TensorFlow initializes.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters

STEPS, BATCH = 24, 16


def rows(seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which one in ten is large enough to overflow FP16 gradients at a high scale."""
    rng = np.random.default_rng(0)
    count = seeds * STEPS * BATCH
    large = np.where(rng.random((count, 1)) < 0.1, 30.0, 1.0)
    x = (rng.standard_normal((count, 4)) * large).astype("float32")
    return x, 10 * x.sum(axis=1, keepdims=True)


class StartOver(keras.callbacks.Callback):
    """Makes every epoch a training of its own, from its own seed."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[dict] = []

    def on_train_begin(self, logs=None):
        self.fresh = [variable.numpy() for variable in self.model.optimizer.variables]

    def on_epoch_begin(self, epoch, logs=None):
        rng = np.random.default_rng(epoch)
        self.model.set_weights([rng.normal(0, 0.3, w.shape) for w in self.model.get_weights()])
        for variable, value in zip(self.model.optimizer.variables, self.fresh, strict=True):
            variable.assign(value)

    def on_epoch_end(self, epoch, logs=None):
        counters = read_counters(self.model.optimizer)
        finite = all(np.isfinite(weight).all() for weight in self.model.get_weights())
        self.results.append(
            {
                "finite": bool(finite),
                "skipped": counters.skipped_steps,
                "scale": counters.loss_scale,
                "steps": counters.steps,
            }
        )


def fit_from_seeds(seeds: int, strategy: tf.distribute.Strategy) -> list[dict]:
    """One short mixed_float16 training per seed."""
    keras.config.set_dtype_policy("mixed_float16")
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )
        model.compile(LossScaleOptimizer(keras.optimizers.SGD(0.001)), "mse")
        model.optimizer.build(model.trainable_variables)
    data = tf.data.Dataset.from_tensor_slices(rows(seeds)).batch(BATCH, drop_remainder=True)
    start_over = StartOver()
    model.fit(data, epochs=seeds, steps_per_epoch=STEPS, verbose=0, callbacks=[start_over])
    return start_over.results


def one_step(
    strategy: tf.distribute.Strategy, gradients: list[float], loss_scale: float | str = "dynamic"
) -> dict:
    """One SGD step of size 1 on weight 0 with these local gradients, given per replica."""
    with strategy.scope():
        weight = keras.Variable(0.0)
        inner = keras.optimizers.SGD(1.0)
    # Outside the scope, as a callback would: it follows its inner optimizer.
    optimizer = LossScaleOptimizer(inner, loss_scale)
    optimizer.build([weight])

    @tf.function
    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        scale = optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply([tf.gather(tf.constant(gradients), replica) * scale], [weight])

    strategy.run(step)
    counters = read_counters(optimizer)
    copies = [float(copy) for copy in strategy.experimental_local_results(weight.value)]
    scales = strategy.experimental_local_results(optimizer.dynamic_scale.value)
    return {
        "weights": copies,
        "skipped": counters.skipped_steps,
        "scales": [float(scale) for scale in scales],
    }


def unscaled_step(strategy: tf.distribute.Strategy, gradients: list[float]) -> list[float]:
    """The weight on each replica after a step that averages unscaled gradients before `apply`."""
    with strategy.scope():
        weight = keras.Variable(0.0)
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])

    @tf.function
    def step():
        replica = tf.distribute.get_replica_context()
        own = tf.gather(tf.constant(gradients), replica.replica_id_in_sync_group)
        (unscaled,) = optimizer.unscale([own * optimizer.scale_loss(tf.constant(1.0))], [weight])
        mean = replica.all_reduce(tf.distribute.ReduceOp.MEAN, unscaled)
        optimizer.apply([mean], [weight])

    strategy.run(step)
    return [float(copy) for copy in strategy.experimental_local_results(weight.value)]


def refusal_across_replicas(strategy: tf.distribute.Strategy) -> str:
    """The error of a traced step that `strategy.run` was not given."""
    with strategy.scope():
        weight = keras.Variable(0.0)
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])

        @tf.function
        def step():
            optimizer.apply([optimizer.scale_loss(tf.constant(1.0))], [weight])

        try:
            step()
        except ValueError as error:
            return str(error)
    return ""


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    nan = float("nan")
    result = {
        "first_replica": one_step(strategy, [nan, 1.0]),
        "second_replica": one_step(strategy, [1.0, nan]),
        "sum": one_step(strategy, [3e38, 3e38], loss_scale=1.0),
        "large": one_step(strategy, [-5e37, -5e37], loss_scale=1.0),
        "neither": one_step(strategy, [-1.0, -2.0]),
        "unscaled": unscaled_step(strategy, [-1.0, -2.0]),
        "across_replicas": refusal_across_replicas(strategy),
        "fits": fit_from_seeds(int(sys.argv[1]), strategy),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
