"""The float64 forward pass is Keras's own under its float64 policy."""

import keras
import numpy as np
import pytest

from tfmp.converters.intake import open_source
from tfmp.converters.intake.float64 import Float64Model
from tfmp.converters.shared.errors import ConversionError

layers = keras.layers


def convolutions() -> keras.Model:
    image = keras.Input((8, 8, 3), name="x")
    hidden = layers.Conv2D(4, 3, activation="gelu")(image)
    hidden = layers.BatchNormalization()(hidden)
    hidden = layers.LayerNormalization()(layers.MaxPooling2D()(hidden))
    hidden = layers.GlobalAveragePooling2D()(layers.DepthwiseConv2D(2)(hidden))
    return keras.Model(image, layers.Dense(3, activation="softmax")(hidden))


def loop() -> keras.Model:
    """A GRU runs as a TensorFlow While with inner functions."""
    steps = keras.Input((5, 4), name="x")
    return keras.Model(steps, layers.Dense(2)(layers.GRU(6)(steps)))


def attention() -> keras.Model:
    steps = keras.Input((4, 8), name="x")
    return keras.Model(steps, layers.MultiHeadAttention(2, 4)(steps, steps))


def large_weights() -> keras.Model:
    """Weights that enter the graph as inputs, one of them at two places."""
    row = keras.Input((128,), name="x")
    shared = layers.Dense(128, activation="tanh")
    return keras.Model(row, layers.Dense(200)(shared(shared(row))))


def test_halves_become_wide_too():
    """The distance of a model in mixed precision from this is its own rounding."""
    import tensorflow as tf

    half = tf.constant([[1 / 3]], tf.float16)

    @tf.function(input_signature=[tf.TensorSpec((None, 1), name="x")])
    def serve(x):
        return tf.cast(tf.cast(x, tf.float16) @ half, tf.float32)

    x = np.array([[0.1]], np.float32)
    (value,) = Float64Model(open_source(serve)).run({"x": x}).values()
    np.testing.assert_allclose(value, x.astype(np.float64) * np.float64(half), rtol=1e-12)


@pytest.fixture
def float64_policy():
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


@pytest.mark.parametrize("build", [convolutions, loop, attention, large_weights])
def test_it_computes_what_keras_does_under_its_float64_policy(build, float64_policy):
    wide = build()
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    model = build()
    model.set_weights([value.astype("float32") for value in wide.get_weights()])
    wide.set_weights(model.get_weights())
    x = np.random.default_rng(0).standard_normal((3, *model.input_shape[1:]), dtype=np.float32)
    source = open_source(model)
    (found,) = Float64Model(source).run({"x": x}).values()
    keras.config.set_floatx("float64")
    expected = np.asarray(wide(x.astype(np.float64)))
    assert found.dtype == expected.dtype == np.float64
    # Constants such as epsilon are float32 numbers in one and float64 numbers in the other.
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    (narrow,) = source.forward({"x": x}).values()
    error = np.linalg.norm(narrow - found) / np.linalg.norm(found)
    assert 1e-9 < error < 1e-5


def test_an_op_without_float64_is_said():
    image = keras.Input((4, 4, 3), name="x")
    model = keras.Model(image, layers.UpSampling2D(interpolation="bilinear")(image))
    with pytest.raises(
        ConversionError, match=r"has no float64 for a part of the model .*ResizeBilinear"
    ):
        Float64Model(open_source(model))


def test_a_fused_batch_normalization_has_a_float64_form():
    """As in SavedModels of Keras 2, such as Spotify's Basic Pitch."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    scale, offset, mean = generator.standard_normal((3, 4)).astype(np.float32)
    variance = generator.uniform(1e-3, 2, 4).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec((None, 2, 2, 4), name="x")])
    def serve(x):
        numbers = (scale, offset, mean, variance)
        return tf.compat.v1.nn.fused_batch_norm(x, *numbers, epsilon=0.5, is_training=False)[0]

    x = generator.standard_normal((3, 2, 2, 4)).astype(np.float32)
    (value,) = Float64Model(open_source(serve)).run({"x": x}).values()
    scale, offset, mean, variance = (
        one.astype(np.float64) for one in (scale, offset, mean, variance)
    )
    expected = (x - mean) / np.sqrt(variance + 0.5) * scale + offset
    np.testing.assert_allclose(value, expected, rtol=1e-12)
