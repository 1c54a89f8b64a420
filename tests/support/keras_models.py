"""Small seeded Keras models of the kinds that users bring."""

import keras
from keras import layers, ops
from stacks import stack


def dense() -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((6,), name="features"),
            layers.Dense(8, activation="relu"),
            layers.Dense(3, activation="softmax", name="scores"),
        ],
        name="dense",
    )


def conv() -> keras.Model:
    """Convolutions of every kind, with batch normalization that is not the identity."""
    keras.utils.set_random_seed(0)
    image = keras.Input((12, 12, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(image)
    x = layers.BatchNormalization(**_trained_statistics())(x)
    x = layers.ReLU(6.0)(x)
    x = layers.DepthwiseConv2D(3, strides=2, padding="same")(x)
    x = layers.BatchNormalization(**_trained_statistics())(x)
    x = layers.SeparableConv2D(12, 3, dilation_rate=2, padding="same")(x)
    x = layers.Conv2D(12, 3, groups=3, padding="same")(x)
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same")(x)
    x = layers.UpSampling2D(interpolation="bilinear")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(4, name="logits")(x), name="conv")


def _trained_statistics() -> dict[str, object]:
    return {
        "beta_initializer": keras.initializers.RandomNormal(seed=1),
        "gamma_initializer": keras.initializers.RandomUniform(0.5, 1.5, seed=2),
        "moving_mean_initializer": keras.initializers.RandomNormal(seed=3),
        "moving_variance_initializer": keras.initializers.RandomUniform(0.5, 1.5, seed=4),
    }


def lstm() -> keras.Model:
    keras.utils.set_random_seed(0)
    steps = keras.Input((7, 5), name="steps")
    x = layers.LSTM(8, return_sequences=True)(steps)
    x = layers.Bidirectional(layers.GRU(6))(x)
    return keras.Model(steps, layers.Dense(3, name="out")(x), name="lstm")


def masked_lstm() -> keras.Model:
    keras.utils.set_random_seed(0)
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(2, 8, mask_zero=True)(tokens)
    return keras.Model(tokens, layers.LSTM(4, name="state")(x), name="masked_lstm")


def conv_lstm() -> keras.Model:
    keras.utils.set_random_seed(0)
    frames = keras.Input((4, 8, 8, 2), name="frames")
    return keras.Model(frames, layers.ConvLSTM2D(3, 3, name="map")(frames), name="conv_lstm")


def transformer() -> keras.Model:
    """Causal attention over a length that varies, exact GELU, an epsilon below FP16's range."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None, 16), name="tokens")
    x = layers.MultiHeadAttention(2, 8)(tokens, tokens, use_causal_mask=True)
    x = layers.LayerNormalization(epsilon=1e-12)(x + tokens)
    y = layers.Dense(32, activation=keras.activations.gelu)(x)
    x = layers.LayerNormalization(epsilon=1e-12)(x + layers.Dense(16)(y))
    return keras.Model(tokens, layers.Dense(4, name="logits")(x), name="transformer")


def two_towers() -> keras.Model:
    """Dict inputs of two dtypes and dict outputs."""
    keras.utils.set_random_seed(0)
    ids = keras.Input((3,), dtype="int32", name="ids")
    dense = keras.Input((4,), name="dense")
    x = layers.Flatten()(layers.Embedding(2, 4)(ids))
    x = layers.Concatenate()([x, layers.Dense(4, activation="tanh", name="tower")(dense)])
    return keras.Model(
        {"ids": ids, "dense": dense},
        {"score": layers.Dense(1, activation="sigmoid", name="click")(x), "embedding": x},
        name="two_towers",
    )


def variance_overflow() -> keras.Model:
    """Right in float32 and on a CPU that lifts FP16 to FP32; overflows where FP16 is real."""
    features = keras.Input((1024,), name="features")
    x = features * 300.0
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    normal = layers.Identity(name="normal")(centred / ops.sqrt(variance + 1e-3))
    return keras.Model(features, normal, name="variance_overflow")


def square_overflow() -> keras.Model:
    """The same with a square that no rewriting takes out; its FP16 result is zero."""
    features = keras.Input((1024,), name="features")
    x = features * 300.0
    damped = layers.Identity(name="damped")(x / (1.0 + ops.square(x) * 1e-5))
    return keras.Model(features, damped, name="square_overflow")


class Subclassed(keras.Model):
    """A model without a graph of its own."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden = layers.Dense(5, activation="elu")
        self.out = layers.Dense(2)

    def call(self, inputs: dict) -> dict:
        return {"out": self.out(self.hidden(inputs["a"]) + inputs["b"])}


def subclassed() -> keras.Model:
    keras.utils.set_random_seed(0)
    model = Subclassed(name="subclassed")
    model({"a": ops.ones((1, 5)), "b": ops.ones((1, 5))})
    return model


CORPUS = {
    build.__name__: build
    for build in (
        dense,
        conv,
        lstm,
        masked_lstm,
        conv_lstm,
        transformer,
        two_towers,
        variance_overflow,
        subclassed,
    )
}


def overflowing_sums() -> keras.Model:
    """The layer "sums" passes 65504 where inputs are 2000; float32 does not mind."""
    keras.utils.set_random_seed(7)
    ones = {"use_bias": False, "kernel_initializer": "ones"}
    first, sums = (layers.Dense(8, name=name, **ones) for name in ("first", "sums"))
    return stack(first, sums, layers.LayerNormalization(), 1, inputs=(8,))
