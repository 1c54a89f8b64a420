"""Jobs for tests of `colocate`: functions at the top of a module, which other processes find."""

import os
import signal
from typing import Any

import keras
import numpy as np
from stacks import stack

import tfmp

_RNG = np.random.default_rng(0)
X = _RNG.standard_normal((40, 6)).astype("float32")
Y = (X[:, :3] @ _RNG.standard_normal((3, 3))).argmax(-1)


def small() -> keras.Model:
    """A classifier with dropout and batch normalization: random and running state."""
    layers = keras.layers
    parts = layers.Dense(16, "relu"), layers.BatchNormalization(), layers.Dropout(0.3)
    how = {"optimizer": "adam", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}
    return stack(*parts, layers.Dense(3, "softmax"), inputs=(6,), **how)


def other() -> keras.Model:
    """Another model, which on TensorFlow draws random numbers without a generator of its own."""
    first, last = keras.layers.Dense(12, "gelu"), keras.layers.Dense(3, "softmax")
    sgd, loss = keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy"
    return stack(first, Noisy(), last, inputs=(6,), optimizer=sgd, loss=loss)


class Noisy(keras.layers.Layer):
    """Adds noise: by Keras's global generator, which JAX refuses in compiled steps."""

    def build(self, input_shape: object) -> None:
        on_jax = keras.backend.backend() == "jax"
        self.seeds = keras.random.SeedGenerator() if on_jax else None

    def call(self, inputs: Any) -> Any:
        noise = keras.random.normal(keras.ops.shape(inputs), dtype=inputs.dtype, seed=self.seeds)
        return inputs + noise * 0.01


def broken() -> keras.Model:
    """A model that cannot be built."""
    raise RuntimeError("no such architecture")


def interrupting() -> list[keras.callbacks.Callback]:
    """Sends Ctrl-C to the process that trains, as a terminal does."""

    def interrupt(batch: int, logs: Any) -> None:
        if batch == 2:
            os.kill(os.getpid(), signal.SIGINT)

    return [keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)]


def killed() -> keras.Model:
    """What the system does to a process when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def huge() -> keras.Model:
    """A model with 64 GiB of weights."""
    return stack(2**33 // 3, inputs=(6,), optimizer="sgd", loss="mse")


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Data by a function."""
    return [(X[i : i + 8], Y[i : i + 8]) for i in range(0, 40, 8)]


def jobs() -> list[tfmp.Job]:
    """Four precisions side by side, of different lengths."""
    return [
        tfmp.Job(small, (X, Y), "float32", 8, name="single", batch_size=8, seed=1),
        tfmp.Job(small, (X, Y), "float64", 6, name="double", batch_size=8, seed=2),
        tfmp.Job(other, batches, "mixed_float16", 8, name="half", seed=3),
        tfmp.Job(other, batches, "mixed_bfloat16", 6, name="brain", seed=4),
    ]
