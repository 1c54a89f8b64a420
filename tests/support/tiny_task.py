"""A task of seconds for tests of the experiment; one of its arms can be told to crash."""

import os

import keras
import numpy as np

import tfmp


def build() -> keras.Model:
    if os.environ.get("TINY_TASK_CRASHES") == keras.config.dtype_policy().name:
        os._exit(7)
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(1, name="y")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def closeness(predictions: np.ndarray, labels: np.ndarray) -> float:
    return -float(np.abs(predictions[:, 0] - labels).mean())


def task() -> tfmp.Task:
    random = np.random.default_rng(0)
    x = random.normal(size=(192, 4)).astype("float32")
    y = x.sum(axis=1)
    train, test = (x[:128], y[:128]), (x[128:], y[128:])
    return tfmp.Task("tiny", build, train, test, closeness, 0.05, epochs=3)


def build_diverging() -> keras.Model:
    model = build()
    model.compile(keras.optimizers.SGD(1e30), "mse")
    return model


def diverging() -> tfmp.Task:
    made = task()
    return tfmp.Task("diverging", build_diverging, made.train, made.test, closeness, 0.05)


def build_faint() -> keras.Model:
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(1, name="y")]
    model = keras.Sequential([keras.Input((4,), name="x"), *layers])
    model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-12), "mse", loss_weights=[1e-7])
    return model


def faint() -> tfmp.Task:
    """A task whose gradients FP16 holds only if the loss is scaled."""
    made = task()
    return tfmp.Task("faint", build_faint, made.train, made.test, closeness, 0.05, epochs=2)


def build_two() -> keras.Model:
    x = keras.Input((4,), name="x")
    model = keras.Model(x, [keras.layers.Dense(1, name=name)(x) for name in ("one", "two")])
    model.compile(keras.optimizers.SGD(0.1), {"one": "mse", "two": "mse"})
    return model


def worst(predictions: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> float:
    return -max(float(np.abs(predictions[n][:, 0] - labels[n]).mean()) for n in ("one", "two"))


def two_outputs() -> tfmp.Task:
    made = task()
    train, test = [(x, {"one": y, "two": y}) for x, y in (made.train, made.test)]
    return tfmp.Task("two outputs", build_two, train, test, worst, 0.05)


def build_stubborn() -> keras.Model:
    with_dtype = keras.layers.Dense(1, dtype="float32", name="y")
    model = keras.Sequential([keras.Input((4,), name="x", dtype="float32"), with_dtype])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def stubborn() -> tfmp.Task:
    made = task()
    return tfmp.Task("stubborn", build_stubborn, made.train, made.test, closeness, 0.05)


class Doubled(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def build_own() -> keras.Model:
    layers = [Doubled(), keras.layers.Dense(1, name="y")]
    model = keras.Sequential([keras.Input((4,), name="x"), *layers])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def own_layer() -> tfmp.Task:
    made = task()
    return tfmp.Task("own layer", build_own, made.train, made.test, closeness, 0.05)


def broken(predictions: np.ndarray, labels: np.ndarray) -> float:
    raise RuntimeError("broken")


def broken_metric() -> tfmp.Task:
    made = task()
    return tfmp.Task("broken metric", build, made.train, made.test, broken, 0.05)
