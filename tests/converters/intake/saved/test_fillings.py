"""Operations that no format has compute the same by others, in ONNX."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both
from own_layer import Own

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import export_onnx

DENSE = keras.layers.Dense(3, bias_initializer="normal")
DENSE.build((2, 4, 6, 3))


def rows_in_rows(images):
    def rows(image):
        return tf.map_fn(lambda row: tf.image.rgb_to_hsv(row[None])[0], image)

    return tf.map_fn(lambda image: tf.image.rgb_to_hsv(rows(image)), images)


def brighter_or_darker(x):
    bright = tf.image.hsv_to_rgb
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: bright(x), lambda: tf.image.rgb_to_hsv(x))


def step_by_step(x):
    def step(index, value):
        return index + 1, DENSE(tf.math.log1p(tf.abs(value)))

    return keras.ops.while_loop(lambda index, value: index < 3, step, (0, x))[1]


FUNCTIONS = {
    "colours in a loop in a loop": rows_in_rows,
    "colours in a branch": brighter_or_darker,
    "logarithms in a loop that reads weights": step_by_step,
    "places in sorted rows": lambda x: tf.searchsorted(tf.sort(x), x[..., :2], side="right"),
    "inverse error function": lambda x: tf.math.erfinv(tf.tanh(x)),
    "transform of three axes": lambda x: tf.abs(tf.signal.fft3d(tf.complex(x, x * x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_export_computes_what_tensorflow_does(name):
    expected, received = run_both(FUNCTIONS[name], normal(2, 4, 6, 3))
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)


def test_nodes_keep_their_layers_and_other_models_stay():
    inputs = keras.Input((5,))
    model = export_onnx(open_source(keras.Model(inputs, Own(tf.math.log1p, name="logs")(inputs))))
    assert {node.metadata_props["tfmp.layer"] for node in model.graph} >= {"logs"}
    source = open_source(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    assert source.filled() is source
