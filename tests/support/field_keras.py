"""Keras models behind reports about TensorFlow Lite, tf2onnx and Keras's own exporters."""

import keras
import numpy as np
from field_case import FieldCase, Generator, normal
from keras import layers, ops

from tfmp.converters.shared.tensors import Batch


def spread_norm() -> keras.Model:
    """A layer normalization in single operations, as the report's model has it."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((16, 64), name="tokens")
    x = layers.Dense(64, kernel_initializer=keras.initializers.RandomNormal(stddev=40.0))(tokens)
    mean = ops.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    normed = layers.Identity(name="norm")(centred * ops.rsqrt(variance + 1e-5))
    return keras.Model(tokens, layers.Dense(8, name="out")(normed), name="spread_norm")


def dense_net() -> keras.Model:
    """Concatenated convolutions whose sums grow past FP16's range."""
    keras.utils.set_random_seed(2)
    image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(12, 3, padding="same", activation="relu")(image)
    for _ in range(3):
        y = layers.BatchNormalization(
            gamma_initializer=keras.initializers.Constant(14.0),
            moving_variance_initializer=keras.initializers.Constant(0.02),
        )(x)
        y = layers.Conv2D(12, 3, padding="same", activation="relu")(y)
        x = layers.Concatenate()([x, y])
    small = keras.initializers.RandomNormal(stddev=1e-5)
    scores = layers.Conv2D(5, 1, kernel_initializer=small, name="scores")(x)
    return keras.Model(image, scores, name="dense_net")


def masked_classifier() -> keras.Model:
    """Attention whose mask is 1e30, as Hugging Face's DistilBERT for TensorFlow has it."""
    keras.utils.set_random_seed(3)
    ids = keras.Input((12,), dtype="int32", name="ids")
    keep = ops.cast(ops.not_equal(ids, 0), "float32")
    x = layers.Embedding(50, 32)(ids)
    q, k, v = (layers.Dense(32)(x) for _ in range(3))
    scores = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / 32**0.5
    scores = scores - 1e30 * (1.0 - keep)[:, None, :]
    x = layers.LayerNormalization(epsilon=1e-12)(x + ops.matmul(ops.softmax(scores), v))
    label = layers.Dense(2, activation="softmax", name="label")(x[:, 0])
    return keras.Model(ids, label, name="masked_classifier")


def sentences(generator: Generator, samples: int) -> Batch:
    ids = generator.integers(1, 50, (samples, 12)).astype(np.int32)
    ids[np.arange(12) >= generator.integers(4, 13, samples)[:, None]] = 0
    return {"ids": ids}


def sum_of_map() -> keras.Model:
    feature = keras.Input((64, 64, 4), name="feature")
    return keras.Model(feature, ops.sum(feature, axis=(1, 2)), name="sum_of_map")


def uniform_maps(generator: Generator, samples: int) -> Batch:
    level = generator.uniform(0.2, 1.0, (samples, 1, 1, 4))
    return {"feature": (generator.random((samples, 64, 64, 4)) * level).astype(np.float32)}


def two_inputs() -> keras.Model:
    keras.utils.set_random_seed(11)
    first = keras.Input((128, 2), name="input_1")
    second = keras.Input((64, 4), name="input_2")
    x = layers.Conv1D(8, 3, strides=2, padding="same", activation="relu")(first)
    y = layers.Conv1D(8, 3, padding="same", activation="relu")(second)
    joined = layers.GlobalAveragePooling1D()(layers.Concatenate()([x, y]))
    return keras.Model([first, second], layers.Dense(3, name="scores")(joined), name="two_inputs")


def two_series(generator: Generator, samples: int) -> Batch:
    return {**normal("input_1", 128, 2)(generator, samples),
            **normal("input_2", 64, 4)(generator, samples)}  # fmt: skip


CASES = [
    FieldCase(
        "tensorflow/tensorflow#67216",
        "ADD(x, 1e-5) gives other numbers on the GPU",
        "FAIL PASS",
        spread_norm,
        normal("tokens", 16, 64),
        to="tflite",
    ),
    FieldCase(
        "tensorflow/tensorflow#48671",
        "a DenseNet's classes are bogus with setPrecisionLossAllowed(true)",
        "FAIL PASS",
        dense_net,
        normal("image", 16, 16, 3),
        samples=320,
        to="tflite",
    ),
    FieldCase(
        "tensorflow/tensorflow#43719",
        "a DistilBERT in float16 answers NaN",
        "PASS",
        masked_classifier,
        sentences,
        samples=320,
        to="tflite",
    ),
    FieldCase(
        "tensorflow/tensorflow#43393",
        "reduce_sum is off by 1e-3 on the GPU",
        "PASS",
        sum_of_map,
        uniform_maps,
        to="tflite",
    ),
    FieldCase(
        "onnx/tensorflow-onnx#2329",
        "no support for Keras 3",
        "PASS",
        two_inputs,
        two_series,
        samples=640,
    ),
]
