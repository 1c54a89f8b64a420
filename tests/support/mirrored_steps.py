"""Takes steps under MirroredStrategy on two virtual CPUs; prints what came of them as JSON.

    python mirrored_steps.py

A process of its own, because virtual devices must exist before TensorFlow initializes.
"""

import json
import sys

import keras
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters


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
        "neither": one_step(strategy, [-1.0, -2.0]),
        "unscaled": unscaled_step(strategy, [-1.0, -2.0]),
        "across_replicas": refusal_across_replicas(strategy),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
