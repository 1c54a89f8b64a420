"""Reports of layers, losses and models that mixed precision breaks."""

import keras
import numpy as np
import tensorflow as tf
from training_case import Outcome, TrainingCase, both, by_callback, by_policy, mixed, rows, sums

import tfmp

layers = keras.layers
X, Y = rows(8), sums(rows(8))
STEPS = rows(12, 4)
SIGNS = np.where(np.arange(64) % 2, 1.0, -1.0).astype("float32")[:, None]
BOARDS = rows(48, 48, 3) + 50 * SIGNS[:, None, None] * (np.indices((48, 48)).sum(0) % 2)[..., None]
IMAGES = rows(16, 16, 3)
LABELS = np.eye(3, dtype="float32")[np.arange(64) % 3]


def stack(*middle: layers.Layer, shape: tuple[int, ...] = (8,)) -> keras.Model:
    """A Sequential model with one output."""
    return keras.Sequential([keras.Input(shape), *middle, layers.Dense(1)])


class InstanceNormalization(layers.Layer):
    """As the report has it: moments over the whole picture, in the dtype of the layer."""

    def call(self, x):
        mean = tf.reduce_sum(x, axis=[1, 2], keepdims=True) / (x.shape[1] * x.shape[2])
        centred = x - mean
        summed = tf.reduce_sum(tf.square(centred), axis=[1, 2], keepdims=True)
        return centred / tf.sqrt(summed / (x.shape[1] * x.shape[2]) + 1e-5)


class LayerScale(layers.Layer):
    """A factor in a variable that is not Keras's, as `keras.applications` had it."""

    def build(self, shape):
        self.gamma = tf.Variable(tf.ones(shape[-1]), name="gamma")

    def call(self, x):
        return x * self.gamma


class Mixing(layers.Layer):
    """FNet's: a Fourier transform, which is always float32, beside what went in."""

    def call(self, x):
        return x + tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64)))


class Pyramid(layers.Layer):
    """The mean over the picture, resized, beside a convolution."""

    def __init__(self):
        super().__init__()
        self.far, self.near = layers.Conv2D(4, 1), layers.Conv2D(4, 3, padding="same")

    def build(self, shape):
        self.far.build((None, 1, 1, shape[-1]))
        self.near.build(shape)

    def call(self, x):
        mean = self.far(tf.reduce_mean(x, axis=[1, 2], keepdims=True))
        return tf.concat([tf.image.resize(mean, x.shape[1:3]), self.near(x)], -1)


class Positions(layers.Layer):
    """Adds a table that is always float32."""

    def build(self, shape):
        self.table = tf.Variable(tf.zeros(shape[1:]))

    def call(self, x):
        return tf.add(x, self.table)


class RawLoss(keras.Model):
    """A `train_step` whose loss is TensorFlow's arithmetic on labels and outputs."""

    def __init__(self):
        super().__init__()
        self.dense, self.out = layers.Dense(8), layers.Dense(1)

    def call(self, x):
        return self.out(self.dense(x))

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.subtract(y, self(x, training=True))))
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"own_loss": loss}


def raw_loss() -> keras.Model:
    model = RawLoss()
    model.compile(keras.optimizers.Adam(0.01))
    return model


def hard_classes() -> keras.Model:
    """Starts with answers that are wrong and far apart."""
    x = keras.Input((8,))
    hidden = layers.Dense(8, kernel_initializer="identity", trainable=False)(x)
    start = keras.initializers.RandomNormal(stddev=6.0, seed=3)
    return keras.Model(x, layers.Dense(3, "softmax", kernel_initializer=start)(hidden))


def attention() -> keras.Model:
    x = keras.Input((12, 4))
    mask = keras.ops.concatenate([keras.ops.ones((12, 6)), keras.ops.zeros((12, 6))], axis=1)
    wide = layers.Dense(8, kernel_initializer=keras.initializers.RandomNormal(stddev=8.0))(x)
    y = layers.MultiHeadAttention(2, 4)(wide, wide, attention_mask=mask[None])
    return keras.Model(x, layers.Dense(1)(layers.GlobalMaxPooling1D()(y)))


def saved(side: str) -> Outcome:
    """Trains with an activity regularizer, saves, loads, predicts."""
    build = lambda: stack(layers.Dense(8, activity_regularizer="l2"))  # noqa: E731
    outcome = (by_policy if side == "keras" else by_callback)(build, X, Y)
    with mixed() if side == "keras" else tfmp.policy_scope("float32"):
        model = build()
    model.compile("adam", "mse")
    callbacks = [] if side == "keras" else [tfmp.MixedPrecision("mixed_float16")]
    model.fit(X, Y, verbose=0, callbacks=callbacks)
    model.save("regularized.keras")
    loaded = keras.models.load_model("regularized.keras")
    same = np.allclose(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    return Outcome(outcome.good and same, f"{outcome.words}; the loaded model answers the same")


CASES = [
    both(
        "keras-team/keras#17571",
        "a masked softmax overflows in attention",
        attention,
        STEPS,
        sums(STEPS),
    ),
    both(
        "tensorflow/tensorflow#47156",
        "a custom instance normalization is unstable",
        lambda: stack(
            InstanceNormalization(),
            layers.Conv2D(4, 3, strides=2, activation="relu"),
            layers.GlobalMaxPooling2D(),
            shape=(48, 48, 3),
        ),
        BOARDS.astype("float32"),
        SIGNS,
        epochs=15,
    ),
    both(
        "keras-team/keras#16907",
        "ConvNeXt: a raw variable in LayerScale",
        lambda: stack(layers.Dense(8), LayerScale()),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#41614",
        "embeddings with a float32 table fail to add",
        lambda: stack(layers.Dense(8), Positions()),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#61771", "labels must be cast by hand before the loss", raw_loss, X, Y
    ),
    both(
        "keras-team/keras#16552",
        "the loss becomes NaN, or nothing is learnt",
        hard_classes,
        X,
        LABELS[np.argmin(X[:, :3], axis=1)],
        "categorical_crossentropy",
        rate=0.2,
        epochs=20,
    ),
    TrainingCase(
        "tensorflow/tensorflow#43978",
        "a model with an activity regularizer cannot be saved",
        lambda: saved("keras"),
        lambda: saved("tfmp"),
    ),
    both(
        "keras-team/keras-hub#959",
        "FNet, GPT-2 and T5 fail under the policy",
        lambda: stack(Mixing(), layers.Flatten(), shape=(12, 4)),
        STEPS,
        sums(STEPS),
    ),
    both(
        "JanMarcelKezmann/TensorFlow-Advanced-Segmentation-Models#29",
        "a pyramid of poolings: float16 meets float32",
        lambda: stack(Pyramid(), layers.GlobalAveragePooling2D(), shape=(16, 16, 3)),
        IMAGES,
        sums(IMAGES),
    ),
]
