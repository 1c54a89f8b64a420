"""The Keras models of the corpus that `keras_models.py` lacks: what makes FP16 conversion hard."""

import keras
from keras import layers, ops


def gru() -> keras.Model:
    steps = keras.Input((7, 5), name="steps")
    x = layers.GRU(8, return_sequences=True)(steps)
    return keras.Model(steps, layers.GRU(4, reset_after=False, name="state")(x), name="gru")


def bidirectional() -> keras.Model:
    steps = keras.Input((7, 5), name="steps")
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(steps)
    return keras.Model(steps, layers.Dense(3, name="tags")(x), name="bidirectional")


def encoder() -> keras.Model:
    """A transformer with causal and padding masks and an epsilon below FP16's range."""
    tokens = keras.Input((10,), dtype="int32", name="tokens")
    x = layers.Embedding(2, 16, mask_zero=True)(tokens)
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization(epsilon=1e-12)(x + attended)
        y = layers.Dense(32, activation="gelu")(x)
        x = layers.LayerNormalization(epsilon=1e-12)(x + layers.Dense(16)(y))
    return keras.Model(tokens, layers.Dense(4, name="logits")(x), name="encoder")


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


def multi_io() -> keras.Model:
    """Dict inputs of three ranks, one read twice, and outputs of two dtypes and three ranks."""
    image = keras.Input((8, 8, 3), name="image")
    context = keras.Input((4,), name="context")
    ids = keras.Input((5,), dtype="int32", name="ids")
    seen = layers.Conv2D(6, 3, activation="relu")(image)
    words = layers.Embedding(2, 6)(ids)
    pooled = layers.GlobalAveragePooling2D()(seen) + layers.Dense(6)(context)
    joined = layers.Concatenate()([pooled, ops.mean(words, axis=1), context])
    return keras.Model(
        {"image": image, "context": context, "ids": ids},
        {
            "probabilities": layers.Dense(3, activation="softmax")(joined),
            "label": ops.argmax(joined, axis=-1),
            "map": layers.Conv2D(1, 1)(seen),
        },
        name="multi_io",
    )


def causal_stack() -> keras.Model:
    """Dilated causal convolutions with gates and residuals, as in WaveNet, over any length."""
    signal = keras.Input((None, 4), name="signal")
    x = layers.Conv1D(8, 1)(signal)
    for dilation in (1, 2, 4):
        options = {"padding": "causal", "dilation_rate": dilation}
        gate = layers.Conv1D(8, 2, activation="sigmoid", **options)(x)
        x = x + gate * layers.Conv1D(8, 2, activation="tanh", **options)(x)
    return keras.Model(signal, layers.Conv1D(2, 1, name="next")(x), name="causal_stack")


def group_norm() -> keras.Model:
    image = keras.Input((8, 8, 6), name="image")
    x = layers.Conv2D(12, 3, padding="same")(image)
    x = layers.GroupNormalization(groups=3)(x)
    x = layers.RMSNormalization()(layers.Activation("silu")(x))
    x = layers.UnitNormalization()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.GroupNormalization(groups=-1)(x), name="group_norm")


def einsum() -> keras.Model:
    steps = keras.Input((6, 8), name="steps")
    x = layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 4), bias_axes="de")(steps)
    pairs = ops.einsum("bihd,bjhd->bhij", x, x)
    return keras.Model(steps, layers.Softmax(name="pairs")(pairs), name="einsum")


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
    for build in (
        gru,
        bidirectional,
        encoder,
        unet,
        masked_attention,
        top_k,
        logsumexp,
        multi_io,
        causal_stack,
        group_norm,
        einsum,
        any_length,
        wide,
    )
}
