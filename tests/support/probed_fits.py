"""A small classifier, its data, and a fit with a callback, for tests of `MixedPrecision`."""

import keras
import numpy as np
from keras import layers
from stacks import stack

CLASSES = 3
# TensorFlow traces a step for longer than fits of a few batches run.
EAGER = {"run_eagerly": keras.backend.backend() == "tensorflow"}


def model(*middle, optimizer="adam", **compile_options) -> keras.Model:
    hidden = layers.Dense(8, activation="relu", name="hidden")
    out = layers.Dense(CLASSES, activation="softmax", name="out")
    how = {"optimizer": optimizer, "loss": "sparse_categorical_crossentropy", **compile_options}
    return stack(hidden, *middle, out, **how)


def data(rows=48, poisoned=()) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype("float32")
    y = (np.abs(x.sum(axis=1)) % CLASSES).astype("int32")
    x[list(poisoned)] = np.nan
    return x, y


def fit(net, callback, x, y, *others, **options):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0, **options}
    return net.fit(x, y, callbacks=[callback, *others], **options)
