"""Takes steps under one of TensorFlow's strategies; prints what came of them as JSON.

    python distributed_steps.py mirrored
    TF_CONFIG=... python distributed_steps.py worker
    python distributed_steps.py parameter_server PORT PORT

Processes of their own: devices must exist before TensorFlow initializes, workers wait for one
another, and servers have no end.
"""

import json
import os
import sys

# A worker of pytest-xdist hands down one core, on which two servers wait for each other for ever.
if sys.platform == "linux":
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

import keras
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.telemetry import read_counters

NAN = float("nan")


def state(optimizer: LossScaleOptimizer, weight: keras.Variable) -> dict:
    """What steps have left of a weight and of the optimizer."""
    counters = read_counters(optimizer)
    return {
        "weights": weight.numpy().tolist(),
        "skipped": counters.skipped_steps,
        "scale": counters.loss_scale,
        "iterations": int(optimizer.iterations.numpy()),
    }


def made_in(strategy: tf.distribute.Strategy) -> tuple[keras.Variable, LossScaleOptimizer]:
    """A weight of 0, and its optimizer."""
    with strategy.scope():
        weight = keras.Variable(0.0)
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])
    return weight, optimizer


def unscaled_step(strategy: tf.distribute.Strategy, gradients: list[float]) -> list[float]:
    """The weight on each replica after a step that averages unscaled gradients before `apply`."""
    weight, optimizer = made_in(strategy)

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
    weight, optimizer = made_in(strategy)
    with strategy.scope():

        @tf.function
        def step():
            optimizer.apply([optimizer.scale_loss(tf.constant(1.0))], [weight])

        try:
            step()
        except ValueError as error:
            return str(error)
    return ""


def mirrored() -> dict:
    """Steps on two virtual CPUs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return {
        "unscaled": unscaled_step(strategy, [-1.0, -2.0]),
        "across_replicas": refusal_across_replicas(strategy),
    }


def steps_of(strategy: tf.distribute.Strategy, inner: keras.optimizers.Optimizer):
    """A weight, its optimizer, and a step whose gradient is the value that it is given."""
    weight = keras.Variable([1.0, 1.0])
    optimizer = LossScaleOptimizer(inner)
    optimizer.build([weight])

    def step(value):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(weight.value * value))
        optimizer.apply(tape.gradient(loss, [weight.value]), [weight])

    return weight, optimizer, tf.function(lambda value: strategy.run(step, args=(value,)))


def worker() -> dict:
    """Six steps of one of two workers. Only the second one's data is poisoned.

    A verdict that differs between workers would leave one of them waiting in an all-reduce that
    the other never joins.
    """
    # Before anything else that touches a device.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight, optimizer, step = steps_of(strategy, keras.optimizers.Adam(0.1))
    number = strategy.cluster_resolver.task_id
    for index in range(6):
        poisoned = number == 1 and index in (1, 2, 4)
        step(tf.constant([1.0, NAN if poisoned else 2.0 + number]))
    return state(optimizer, weight)


def parameter_server(*ports: str) -> dict:
    """Three steps with one worker and one server, the second of them with a NaN."""
    jobs = dict(zip(("worker", "ps"), ([f"127.0.0.1:{port}"] for port in ports), strict=True))
    spec = tf.train.ClusterSpec(jobs)
    SERVERS.extend(tf.distribute.Server(spec, job_name=job, task_index=0) for job in jobs)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        weight, optimizer, step = steps_of(strategy, keras.optimizers.SGD(0.1))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for first in (1.0, NAN, 1.0):
        coordinator.schedule(step, args=(tf.constant([first, 2.0]),))
        coordinator.join()
    return state(optimizer, weight)


SERVERS: list[tf.distribute.Server] = []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])) + "\n")
    sys.stdout.flush()
    if SERVERS:
        os._exit(0)
