"""Tiny models for the TFLite tests, each with one thing to get wrong."""

import keras
import tensorflow as tf
from own_layer import Own


def many_names() -> keras.Model:
    """Several inputs and outputs whose names do not sort in their order; int64, bool, a space."""
    plain = keras.Input((16,), name="x y")
    tokens = keras.Input((6,), name="Tokens", dtype="int64")
    flags = keras.Input((3,), name="flags", dtype="bool")
    hidden = keras.layers.LayerNormalization(name="norm")(plain)
    outputs = {
        "z/score": keras.layers.Dense(3, name="head")(hidden),
        "a": keras.layers.Dense(2, name="side")(hidden),
        "ids": keras.ops.cast(tokens, "int64") * 1_000_000_007_000,
        "words": keras.layers.Embedding(5, 4, name="embed")(tokens),
        "not flags": keras.ops.logical_not(flags),
        "same": plain,
        "same again": keras.layers.Dropout(0.5, name="drop")(plain),
        "same flags": flags,
    }
    return keras.Model([plain, tokens, flags], outputs, name="names")


def variance_overflow(features: int = 1024) -> keras.Model:
    """The mean of squares near 90,000 is more than FP16 holds; the normalized result is not."""
    x = inputs = keras.Input((features,), name="x")
    x = keras.layers.Rescaling(300.0, name="scale")(x)
    x = keras.layers.LayerNormalization(epsilon=1e-3, name="norm")(x)
    return keras.Model(inputs, keras.layers.Dense(10, name="head")(x), name="variance")


def recurrent() -> keras.Model:
    """An LSTM beside a second input."""
    sequence, extra = keras.Input((7, 4), name="sequence"), keras.Input((3,), name="extra")
    state = keras.layers.LSTM(8, name="lstm")(sequence)
    joined = keras.layers.Concatenate(name="join")([state, extra])
    return keras.Model([sequence, extra], keras.layers.Dense(2, name="head")(joined), name="rnn")


def needs_flex() -> keras.Model:
    """An operation that TFLite lacks."""
    inputs = keras.Input((3, 3), name="x")
    return keras.Model(inputs, Own(keras.ops.inv, name="inverse")(inputs), name="flex")


def encoder_and_autoencoder() -> tuple[keras.Model, keras.Model]:
    """Two entry points to the same weights."""
    inputs = keras.Input((32,), name="x")
    code = keras.layers.Dense(64, name="code")(inputs)
    decoded = keras.layers.Dense(32, name="decoder")(code)
    return keras.Model(inputs, code, name="encoder"), keras.Model(inputs, decoded, name="auto")


def destroyed_constants() -> keras.Model:
    """Weights past 65504, a fold that ends past it, and an epsilon that FP16 makes zero."""
    inputs = keras.Input((8, 8, 3), name="image")
    x = keras.layers.Conv2D(4, 3, name="conv")(inputs)
    fold = keras.layers.BatchNormalization(epsilon=1e-12, name="fold")
    x = keras.layers.Flatten(name="flat")(fold(x))
    x = keras.layers.LayerNormalization(epsilon=1e-9, name="norm")(x)
    big = keras.layers.Dense(3, name="big")
    model = keras.Model(inputs, big(x), name="destroyed")
    fold.moving_variance.assign([1e-12] * 4)
    big.kernel.assign(big.kernel * 1e6)
    return model


def hidden_sums() -> keras.Model:
    """Every operator with a sum inside, or a divisor, on one input."""
    x = keras.Input((64,), name="x")
    image = keras.ops.reshape(x, (-1, 8, 8, 1))
    outputs = {
        "mean": keras.ops.mean(x, axis=-1),
        "softmax": keras.ops.softmax(x),
        "pool": keras.layers.AveragePooling2D(4, name="pool")(image),
        "norm": keras.layers.UnitNormalization(name="unit")(x),
        # TensorFlow's own form, which the converter fuses into one operator.
        "fused": Own(lambda x: tf.math.l2_normalize(x, axis=-1), name="l2")(x),
        "inverse": 1.0 / (keras.ops.abs(x) * 1e-9 + 1e-9),
    }
    return keras.Model(x, outputs, name="hidden")
