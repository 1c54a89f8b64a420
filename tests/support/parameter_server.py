"""Trains with a ParameterServerStrategy of one worker and one server; prints results as JSON.

    python parameter_server.py PORT PORT

A process of its own: it ends without waiting for the servers, which have no end.
"""

import json
import os
import sys

# A worker of pytest-xdist hands down one core, on which two servers wait for each other for ever.
if sys.platform == "linux":
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

import keras
import tensorflow as tf

import tfmp
from tfmp.loss_scaling.telemetry import read_counters


def loop(strategy: tf.distribute.Strategy) -> dict:
    """Three steps of a custom loop, the second of them with a NaN."""
    with strategy.scope():
        weight = keras.Variable([1.0, 1.0])
        optimizer = tfmp.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        optimizer.build([weight])

    def step(values):
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(tf.reduce_sum(weight.value * values))
        optimizer.apply(tape.gradient(scaled, [weight.value]), [weight])

    distributed = tf.function(lambda values: strategy.run(step, args=(values,)))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for first in (1.0, float("nan"), 1.0):
        coordinator.schedule(distributed, args=(tf.constant([first, 2.0]),))
        coordinator.join()
    counters = read_counters(optimizer)
    return {
        "weights": weight.numpy().tolist(),
        "skipped": counters.skipped_steps,
        "scale": counters.loss_scale,
        "iterations": int(optimizer.iterations.numpy()),
    }


def main() -> None:
    ports = sys.argv[1:]
    jobs = dict(zip(("worker", "ps"), ([f"127.0.0.1:{port}"] for port in ports), strict=True))
    spec = tf.train.ClusterSpec(jobs)
    servers = [tf.distribute.Server(spec, job_name=job, task_index=0) for job in jobs]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    sys.stdout.write(json.dumps(loop(strategy)) + "\n")
    sys.stdout.flush()
    del servers
    os._exit(0)


if __name__ == "__main__":
    main()
