"""First axes that are batches are fixed; those that are not stay open."""

from collections.abc import Callable
from dataclasses import replace

import keras
import pytest
import tensorflow as tf

from tfmp.converters import open_source
from tfmp.converters.tflite.export.batches import batch_size, fixed_axes

FRAMES, STATE = tf.TensorSpec([None, 8], name="frames"), tf.TensorSpec([2, 8], name="state")


def of(function: Callable, *specs: tf.TensorSpec):
    return open_source(tf.function(function, input_signature=specs))


def with_state(x: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return x + state[0], state + tf.reduce_mean(x)


@pytest.mark.parametrize(
    ("function", "specs", "size"),
    [
        (lambda x: tf.tanh(x), [FRAMES], 1),
        (lambda x: x + tf.random.normal([8]), [FRAMES], 1),  # shows nothing
        (lambda x: tf.cumsum(x), [FRAMES], None),
        (lambda x: x - tf.reduce_mean(x, axis=0), [FRAMES], None),
        (lambda x: x[1:], [FRAMES], None),
        (lambda x: tf.reduce_sum(x, axis=0), [FRAMES], None),
        (with_state, [FRAMES, STATE], None),
        (with_state, [tf.TensorSpec([2, 8], name="frames"), STATE], 2),
    ],
)
def test_the_first_axis_is_a_batch_where_rows_are_answered_one_by_one(function, specs, size):
    assert batch_size(of(function, *specs), 1) == size


def test_keras_says_that_first_axes_are_batches():
    first, second = keras.Input((8,)), keras.Input(batch_shape=(3, 8))
    model = open_source(keras.Model([first, second], keras.layers.Add()([first, second])))
    assert batch_size(model, 1) == 3
    centred = keras.Sequential([keras.Input((8,)), keras.layers.Lambda(lambda x: x[::-1])])
    assert batch_size(open_source(centred), 1) == 1


def test_what_was_fixed_is_named():
    source = of(with_state, FRAMES, STATE)
    inputs = [replace(source.inputs[0], shape=(20, 8)), *source.inputs[1:]]
    assert fixed_axes(source, inputs) == "frames: float32[?, 8] as [20, 8]"
    assert fixed_axes(source, source.inputs) == ""
