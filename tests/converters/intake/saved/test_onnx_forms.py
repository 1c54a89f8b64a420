"""Choices between values of which one may be anything."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.graph.types import check

X = np.array([[0.0, 1.0, -2.0, 0.0]], np.float32)


@pytest.mark.parametrize(
    "guarded",
    [
        lambda x: ops.where(x == 0, 1.0, 1 / x),
        lambda x: ops.where(x > 0, ops.log(x), x),
        lambda x: ops.where(x != 0, ops.exp(x), 1 / x * 0),
        ops.sinc,
    ],
)
def test_what_is_not_selected_may_be_infinite_or_not_a_number(guarded):
    expected, received = run_both(guarded, X)
    np.testing.assert_allclose(received, expected, rtol=1e-6)
    assert np.isfinite(received).any()


@pytest.mark.parametrize(("kernel", "stride", "size"), [(1, 3, 15), (2, 3, 15), ((1, 5), 2, 10)])
def test_a_transposed_convolution_may_add_rows_behind(kernel, stride, size):
    """The kernel is narrower than a stride: ONNX has no negative pads for it."""
    layer = keras.layers.Conv2DTranspose(3, kernel, stride, "same")
    images = normal(2, 5, 5, 2)
    expected, received = run_both(layer, images)
    assert received.shape == (2, size, size, 3)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)
    check(export_onnx(source_of(layer, images)))


@pytest.mark.parametrize(("shift", "axis"), [([2], [1]), (3, -1), ([-1, 7], [2, 1])])
def test_rolling(shift, axis):
    np.testing.assert_array_equal(*run_both(lambda x: tf.roll(x, shift, axis), normal(2, 4, 3)))


@pytest.mark.parametrize("place", [0, 1, -2])
@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 3, 5), (2, 5, 3)])
def test_a_diagonal_is_set(shape, place):
    count = np.eye(*shape[1:], place).sum(dtype=int)
    np.testing.assert_array_equal(
        *run_both(
            lambda x, d: tf.linalg.set_diag(x, d, k=place), normal(*shape), normal(2, count, seed=1)
        )
    )


def test_rows_without_elements_are_not_turned_round():
    x, counts = normal(3, 5, 2), np.array([0, 5, 1], np.int32)
    np.testing.assert_array_equal(
        *run_both(lambda x, counts: tf.reverse_sequence(x, counts, seq_axis=1), x, counts)
    )
