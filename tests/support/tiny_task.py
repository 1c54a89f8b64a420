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
