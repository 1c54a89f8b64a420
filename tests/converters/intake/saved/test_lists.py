"""Scans: what a loop carries, collects, and in which order."""

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both
from keras import ops

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.graph.storage import open_once

X = normal(2, 5, 3)


def steps(x):
    return ops.swapaxes(x, 0, 1)


def test_results_come_in_the_order_of_the_steps_forwards_and_backwards():
    def scan(x):
        there = ops.scan(lambda c, r: (c + r, c * r), x[:, 0], steps(x))[1]
        return ops.scan(lambda c, r: (c - r, c + r), x[:, 0], there, reverse=True)[1]

    np.testing.assert_allclose(*run_both(scan, X), rtol=1e-5, atol=1e-6)


def test_any_number_of_steps_backwards():
    @tf.function(input_signature=[tf.TensorSpec((2, None, 3), name="x")])
    def scan(x):
        return ops.scan(lambda c, r: (c + r, c * r), x[:, 0], steps(x), reverse=True)[1]

    source = open_source(scan)
    run = open_once(export_onnx(source))
    for length in (1, 4, 7):
        x = normal(2, length, 3, seed=length)
        (expected,) = source.forward({"x": x}).values()
        np.testing.assert_allclose(run(["output_0"], {"x": x})[0], expected, rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_element_may_be_written_before_the_loop(reverse):
    def scan(x):
        return tf.scan(lambda a, r: 0.5 * a + r, steps(x), reverse=reverse)

    np.testing.assert_allclose(*run_both(scan, X), rtol=1e-5, atol=1e-6)


def test_a_list_that_a_loop_fills_from_its_end():
    def filled(x):
        rows = tf.TensorArray(tf.float32, 5)
        for i in tf.range(5):
            rows = rows.write(4 - i, 2.0 * x[:, i])
        return rows.stack()

    np.testing.assert_allclose(*run_both(filled, X), rtol=1e-6)


def test_a_list_that_is_filled_without_a_loop():
    def filled(x):
        rows = tf.TensorArray(tf.float32, 5)
        for i in (0, 2, 1, 4, 3):
            rows = rows.write(i, float(i) * x[:, i])
        return rows.stack() + rows.read(4)

    np.testing.assert_allclose(*run_both(filled, X), rtol=1e-6)
