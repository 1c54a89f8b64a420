"""Reports of layers, losses and models that mixed precision breaks."""

import keras
import numpy as np
import tensorflow as tf
from training_case import (
    Outcome,
    TrainingCase,
    both,
    by_callback,
    by_policy,
    learnt,
    mixed,
    rows,
    sums,
)

import tfmp

layers = keras.layers
X, Y = rows(8), sums(rows(8))
STEPS = rows(12, 4)
SIGNS = np.where(np.arange(64) % 2, 1.0, -1.0).astype("float32")[:, None]
BOARDS = rows(48, 48, 3) + 50 * SIGNS[:, None, None] * (np.indices((48, 48)).sum(0) % 2)[..., None]
IMAGES = rows(16, 16, 3)
MASKS = (rows(128, 128, 1) > 0).astype("float32")
PIXELS = np.abs(rows(784))
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


class Cosines(layers.Layer):
    """Its `call` is a `tf.function`."""

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 8), name="w", dtype=self.dtype)

    @tf.function
    def call(self, x):
        return tf.matmul(tf.nn.l2_normalize(x, axis=1), tf.nn.l2_normalize(self.w, axis=0))


class Goodness(layers.Layer):
    """Learns by itself: good rows get large activations, bad ones small ones."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(64, activation="relu")
        self.own_optimizer = keras.optimizers.Adam(0.03)

    def call(self, x):
        return self.dense(x / (tf.norm(x, axis=1, keepdims=True) + 1e-4))

    def learn(self, good, bad):
        with tf.GradientTape() as tape:
            goodness, badness = (tf.reduce_mean(tf.square(self(x)), 1) for x in (good, bad))
            excess = tf.concat([1.5 - goodness, badness - 1.5], 0)
            loss = tf.reduce_mean(tf.math.log(1 + tf.exp(excess)))
        weights = self.dense.trainable_weights
        self.own_optimizer.apply(tape.gradient(loss, weights), weights)
        return tf.stop_gradient(self(good)), tf.stop_gradient(self(bad)), loss


class ForwardForward(keras.Model):
    def __init__(self):
        super().__init__()
        self.steps = [Goodness(), Goodness()]

    def call(self, x):
        return self.steps[1](self.steps[0](x))

    def train_step(self, data):
        good, bad = data
        for step in self.steps:
            good, bad, loss = step.learn(good, bad)
        return {"own_loss": tf.cast(loss, "float32")}


def forward_forward() -> keras.Model:
    model = ForwardForward()
    model(np.ones((2, 784)))
    model.compile()
    return model


def dice(y: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
    """As users write it, in the dtype of the predictions."""
    predicted = tf.convert_to_tensor(predicted)
    y = tf.cast(y, predicted.dtype)
    both = 2 * tf.reduce_sum(y * predicted)
    return 1 - (both + 1) / (tf.reduce_sum(y) + tf.reduce_sum(predicted) + 1)


class Positions(layers.Layer):
    """Adds a table that is always float32."""

    def build(self, shape):
        self.table = tf.Variable(tf.zeros(shape[1:]))

    def call(self, x):
        return tf.add(x, self.table)


class OwnGradient(layers.Layer):
    """A product with a gradient of the user's own."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 8))

    def call(self, x):
        @tf.custom_gradient
        def product(x, kernel):
            def backward(upstream):
                return (
                    tf.matmul(upstream, kernel, transpose_b=True),
                    tf.matmul(x, upstream, transpose_a=True),
                )

            return tf.matmul(x, kernel), backward

        return product(x, tf.cast(self.kernel, x.dtype))


class Slice(layers.Layer):
    """Takes a part of its kernel."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(16, 16))

    def call(self, x):
        return keras.ops.matmul(x, self.kernel[:8, :8])


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


def masked(shape: tuple[int, ...]) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Masking(),
            layers.Dense(8, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )


def recurrent() -> keras.Model:
    x = keras.Input(batch_shape=(16, 12, 4))
    y = layers.LSTM(8, stateful=True, return_sequences=True)(x)
    return keras.Model(x, layers.Dense(1)(layers.GRU(8, stateful=True)(y)))


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


def endless_inputs(side) -> Outcome:
    build = lambda: keras.Sequential(  # noqa: E731
        [
            keras.Input((8, 8, 8)),
            layers.GroupNormalization(groups=4, epsilon=1e-12),
            layers.GlobalMaxPooling2D(),
            layers.Dense(1),
        ]
    )
    x = np.random.default_rng(0).uniform(60_000, 70_000, (64, 8, 8, 8)).astype("float32")
    return side(build, x, sums(rows(8)))


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


def with_xla(side) -> Outcome:
    conv = lambda: keras.Sequential(  # noqa: E731
        [
            keras.Input((16, 16, 3)),
            *(layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(4)),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3, "softmax"),
        ]
    )
    labels = LABELS[np.argmax(IMAGES.mean(axis=(1, 2)), axis=1)]
    return side(conv, IMAGES, labels, "categorical_crossentropy", epochs=20, jit_compile=True)


def normalized() -> keras.Model:
    return stack(layers.Dense(16, activation="relu"), layers.LayerNormalization())


def float8_in_keras() -> Outcome:
    policy = keras.dtype_policies.QuantizedFloat8DTypePolicy("float8", "mixed_bfloat16")
    keras.config.set_dtype_policy(policy)  # as the report does; `run` restores it
    model = normalized()
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    return learnt(model.fit(X, Y, epochs=6, batch_size=16, verbose=0))


def float8_in_tfmp() -> Outcome:
    model = normalized()
    tfmp.plan(model, "mixed_float8").apply()
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    callback = tfmp.MixedPrecision("mixed_bfloat16")
    outcome = learnt(model.fit(X, Y, epochs=6, batch_size=16, verbose=0, callbacks=[callback]))
    policy = model.layers[0].dtype_policy.name
    return Outcome(outcome.good and policy.startswith("float8"), f"{outcome.words} in {policy}")


CASES = [
    both(
        "tensorflow/tensorflow#38850",
        "GaussianNoise: float16 meets float32",
        lambda: stack(layers.Dense(8), layers.GaussianNoise(0.01)),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#35883",
        "AlphaDropout: float16 meets float32",
        lambda: stack(layers.Dense(8, activation="selu"), layers.AlphaDropout(0.05)),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#35817",
        "LayerNormalization fails under the policy",
        lambda: stack(layers.Dense(8), layers.LayerNormalization()),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#59678",
        "dropout fails under mixed_float16 with XLA",
        lambda: stack(layers.Dense(8), layers.Dropout(0.1)),
        X,
        Y,
        jit_compile=True,
    ),
    both(
        "keras-team/keras#20605",
        "stateful LSTM and GRU fail to build",
        recurrent,
        STEPS,
        sums(STEPS),
    ),
    both(
        "tensorflow/tensorflow#48961",
        "GlobalAveragePooling1D with a mask fails",
        lambda: masked((12, 4)),
        STEPS,
        sums(STEPS),
    ),
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
    TrainingCase(
        "keras-team/keras#22586",
        "GroupNormalization gives NaN",
        lambda: endless_inputs(by_policy),
        lambda: endless_inputs(by_callback),
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
        "keras-team/keras#18139",
        "a custom gradient fails under the policy",
        lambda: stack(OwnGradient()),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#30417",
        "'AutoCastVariable' object is not subscriptable",
        lambda: stack(Slice()),
        X,
        Y,
    ),
    both(
        "tensorflow/tensorflow#39982",
        "categorical_hinge: float16 meets float32",
        lambda: keras.Sequential([keras.Input((8,)), layers.Dense(8), layers.Dense(3)]),
        X,
        LABELS[np.argmax(X[:, :3], axis=1)],
        "categorical_hinge",
    ),
    both(
        "tensorflow/tensorflow#61771",
        "labels must be cast by hand before the loss",
        raw_loss,
        X,
        Y,
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
    TrainingCase(
        "tensorflow/tensorflow#46392",
        "the loss does not fall with XLA and mixed precision",
        lambda: with_xla(by_policy),
        lambda: with_xla(by_callback),
    ),
    both(
        "tensorflow/tensorflow#50171",
        "EfficientNet: normalization of inputs meets float16",
        lambda: stack(
            layers.Rescaling(1 / 255),
            layers.Normalization(mean=0.5, variance=0.1),
            layers.Conv2D(4, 3),
            layers.GlobalAveragePooling2D(),
            shape=(16, 16, 3),
        ),
        IMAGES * 255,
        sums(IMAGES, 0.01),
        epochs=20,
    ),
    both(
        "tensorflow/tensorflow#59826",
        "forward-forward training stops to learn",
        forward_forward,
        PIXELS,
        np.roll(PIXELS, 1, axis=0) * (np.arange(784) % 2),
        None,
        epochs=15,
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
    both(
        "tensorflow/tensorflow#45568",
        "a dice loss has wrong values",
        lambda: keras.Sequential(
            [
                keras.Input((128, 128, 1)),
                layers.Conv2D(4, 3, padding="same", activation="relu"),
                layers.Conv2D(1, 1, activation="sigmoid"),
            ]
        ),
        MASKS + 0.1 * rows(128, 128, 1),
        MASKS,
        dice,
    ),
    both(
        "tensorflow/tensorflow#58937",
        "a variable in a `tf.function` is not cast",
        lambda: stack(layers.Dense(16, activation="relu"), Cosines()),
        X,
        Y,
    ),
    TrainingCase(
        "keras-team/keras#23479",
        "mixed_float8 is missing",
        float8_in_keras,
        float8_in_tfmp,
    ),
]
