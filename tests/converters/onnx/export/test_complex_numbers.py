"""Complex arithmetic computes by its parts what TensorFlow computes."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import check_export, export_onnx
from tfmp.converters.onnx.graph import open_once

Function = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
CASES: dict[str, Function] = {
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "exponential": lambda a, b: tf.exp(a) - b,
    "constant": lambda a, b: tf.constant([1 + 2j, 0.5j], tf.complex64) * a + 1j * b,
    "cast": lambda a, b: tf.cast(tf.math.real(b), tf.complex64) * a,
    "signal": lambda a, b: tf.cast(tf.abs(a), tf.complex64) * tf.exp(1j * tf.cast(
        tf.math.angle(b), tf.complex64)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parts(name: str):
    shape = (3, 2)

    @tf.function(input_signature=[tf.TensorSpec(shape, name=key) for key in "abcd"])
    def serve(a, b, c, d):
        result = CASES[name](tf.complex(a, b), tf.complex(c, d))
        return tf.math.real(result), tf.math.imag(result)

    source = open_source(serve)
    model = export_onnx(source)
    assert check_export(model, source) < 1e-6
    batch = {
        key: np.random.default_rng(index).standard_normal(shape, dtype=np.float32)
        for index, key in enumerate("abcd")
    }
    a, b, c, d = batch.values()
    exact = CASES[name](
        tf.constant(a + 1j * b, tf.complex64), tf.constant(c + 1j * d, tf.complex64)
    )
    names = [spec.name for spec in source.outputs]
    real, imaginary = open_once(model)(names, batch)
    np.testing.assert_allclose(real + 1j * imaginary, exact, rtol=1e-5, atol=1e-6)
