"""The Keras models of the corpus that `keras_models.py` lacks: what makes FP16 conversion hard."""

import keras
from keras import layers, ops


def unet() -> keras.Model:
    """Down by strides, up by resizing and by transpose convolutions, with skips."""
    image = keras.Input((16, 16, 3), name="image")
    top = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    middle = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")(top)
    bottom = layers.Conv2D(16, 3, strides=2, padding="same", activation="swish")(middle)
    x = layers.Conv2DTranspose(12, 3, strides=2, padding="same")(bottom)
    x = layers.Concatenate()([x, middle])
    x = layers.UpSampling2D(interpolation="bilinear")(x)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.Concatenate()([x, top]))
    return keras.Model(image, layers.Conv2D(2, 1, name="mask")(x), name="unet")


def masked_attention() -> keras.Model:
    """Scores masked by adding -1e9, as much code before Keras's own masks does."""
    tokens = keras.Input((6, 8), name="tokens")
    keep = keras.Input((6,), dtype="bool", name="keep")
    scores = ops.matmul(layers.Dense(8)(tokens), ops.transpose(tokens, (0, 2, 1)))
    masked = scores + (1.0 - ops.cast(keep, "float32"))[:, None, :] * -1e9
    attended = layers.Identity(name="attended")(ops.matmul(ops.softmax(masked), tokens))
    return keras.Model([tokens, keep], attended, name="masked_attention")


def top_k() -> keras.Model:
    features = keras.Input((12,), name="features")
    scores = layers.Dense(40, activation="softmax")(features)
    values, indices = ops.top_k(scores, 5)
    return keras.Model(features, {"values": values, "indices": indices}, name="top_k")


def logsumexp() -> keras.Model:
    """Exponentials of up to exp(40): fine in float32, past the range of FP16."""
    features = keras.Input((16,), name="features")
    total = ops.log(ops.sum(ops.exp(features * 10.0), axis=-1, keepdims=True))
    energy = layers.Identity(name="energy")(total)
    return keras.Model(features, energy, name="logsumexp")


def group_norm() -> keras.Model:
    image = keras.Input((8, 8, 6), name="image")
    x = layers.Conv2D(12, 3, padding="same")(image)
    x = layers.GroupNormalization(groups=3)(x)
    x = layers.RMSNormalization()(layers.Activation("silu")(x))
    x = layers.UnitNormalization()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.GroupNormalization(groups=-1)(x), name="group_norm")


def any_length() -> keras.Model:
    """Pooling, convolution and recurrence over a length that varies."""
    steps = keras.Input((None, 6), name="steps")
    x = layers.Conv1D(8, 3, padding="same", activation="relu")(steps)
    x = layers.LSTM(6, return_sequences=True)(layers.MaxPooling1D()(x))
    x = layers.Concatenate()([layers.GlobalMaxPooling1D()(x), layers.GRU(3)(x)])
    return keras.Model(steps, layers.Dense(2, name="out")(x), name="any_length")


def wide() -> keras.Model:
    """Nearly nothing but weights, most of them in a table."""
    ids = keras.Input((4,), dtype="int32", name="ids")
    x = layers.Flatten()(layers.Embedding(3000, 64)(ids))
    x = layers.Dense(256, activation="relu")(x)
    return keras.Model(ids, layers.Dense(200, name="scores")(x), name="wide")


MODELS = {
    build.__name__: build
    for build in (unet, masked_attention, top_k, logsumexp, group_norm, any_length, wide)
}
