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


def squeeze_excite() -> keras.Model:
    """Squeeze and excitation whose sums pass 65,504, as in EfficientNet-B0's first block."""
    keras.utils.set_random_seed(4)
    image = keras.Input((112, 112, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    gate = ops.sum(x, axis=(1, 2), keepdims=True) / float(112 * 112)
    gate = layers.Conv2D(4, 1, activation="swish")(gate)
    gate = layers.Conv2D(8, 1, activation="sigmoid")(gate)
    x = layers.GlobalAveragePooling2D()(x * gate)
    return keras.Model(image, layers.Dense(10, name="logits")(x), name="squeeze_excite")


def bright_images(generator: Generator, samples: int) -> Batch:
    level = generator.uniform(2.0, 24.0, (samples, 1, 1, 3))
    return {"image": (generator.random((samples, 112, 112, 3)) * level).astype(np.float32)}


def lstm() -> keras.Model:
    keras.utils.set_random_seed(5)
    steps = keras.Input((10, 6), name="steps")
    x = layers.LSTM(16, return_sequences=True)(steps)
    return keras.Model(steps, layers.Dense(3, name="out")(layers.LSTM(8)(x)), name="lstm")


def gru() -> keras.Model:
    keras.utils.set_random_seed(6)
    steps = keras.Input((10, 8), name="steps")
    x = layers.Dense(24, activation="relu")(steps)
    x = layers.GRU(12, return_sequences=True)(x)
    out = layers.Dense(4, activation="softmax", name="tags")(x)
    return keras.Model(steps, out, name="gru")


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


def gelu_block() -> keras.Model:
    keras.utils.set_random_seed(9)
    tokens = keras.Input((8, 16), name="tokens")
    x = layers.LayerNormalization()(tokens)
    x = layers.Dense(32, activation=keras.activations.gelu)(x)
    return keras.Model(tokens, layers.Dense(16, name="out")(x) + tokens, name="gelu_block")


def group_norm() -> keras.Model:
    keras.utils.set_random_seed(10)
    image = keras.Input((8, 8, 16), name="image")
    x = layers.GroupNormalization(groups=4, epsilon=1e-7)(image)
    return keras.Model(image, layers.Dense(5, name="out")(x), name="group_norm")


_LITE = "TFLiteConverter, float16"

CASES = [
    FieldCase(
        "tensorflow/tensorflow#67216",
        "ADD(x, 1e-5) gives other numbers on the GPU",
        _LITE,
        spread_norm,
        normal("tokens", 16, 64),
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "tensorflow/tensorflow#48671",
        "a DenseNet's classes are bogus with setPrecisionLossAllowed(true)",
        _LITE,
        dense_net,
        normal("image", 16, 16, 3),
        samples=320,
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "tensorflow/tensorflow#43719",
        "a DistilBERT in float16 answers NaN",
        _LITE,
        masked_classifier,
        sentences,
        samples=320,
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "tensorflow/tensorflow#43393",
        "reduce_sum is off by 1e-3 on the GPU",
        _LITE,
        sum_of_map,
        uniform_maps,
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "google-ai-edge/LiteRT#9249",
        "SUM over 65,504 makes EfficientNet-B0 NaN",
        _LITE,
        squeeze_excite,
        bright_images,
        samples=320,
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "tensorflow/tensorflow#58668",
        "LSTM layers need Flex operators",
        _LITE,
        lstm,
        normal("steps", 10, 6),
        to="tflite",
        slow=True,
    ),
    FieldCase(
        "onnx/tensorflow-onnx#2329",
        "no support for Keras 3",
        "tf2onnx.convert.from_keras",
        two_inputs,
        two_series,
        samples=640,
    ),
    FieldCase(
        "onnx/tensorflow-onnx#2347",
        "exact GELU: 'erfc is not supported'",
        "keras.Model.export",
        gelu_block,
        normal("tokens", 8, 16),
    ),
]
