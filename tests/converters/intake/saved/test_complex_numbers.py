"""Complex arithmetic computes by its parts what TensorFlow computes."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both

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


def parts(z):
    return tf.stack([tf.math.real(z), tf.math.imag(z)], -1)


MOVES = {
    "division": lambda z: z / (z + 3.0),
    "square": tf.square,
    "sum": lambda z: tf.reduce_sum(z, -1),
    "slice": lambda z: z[..., 1:3],
    "pad": lambda z: tf.pad(z, [[0, 0], [0, 0], [1, 2]]),
    "transpose": lambda z: tf.transpose(z, (0, 2, 1)),
    "reshape": lambda z: tf.reshape(z, (-1, 12)),
    "concatenation": lambda z: tf.concat([z, -z], -2),
    "stack": lambda z: tf.stack([z, tf.math.conj(z)], 1),
    "gather": lambda z: tf.gather(z, [2, 0], axis=-1),
    "matrix product": lambda z: tf.matmul(z, z, adjoint_b=True),
    "transposed matrix product": lambda z: tf.matmul(z, z, transpose_a=True),
    "einsum": lambda z: tf.einsum("bij,bkj->bik", z, z),
    "split": lambda z: tf.split(z, 2, -1)[1] * tf.unstack(z, axis=-1)[0][..., None],
    "choice": lambda z: tf.where(tf.math.real(z) > 0.0, z, tf.square(z)),
    "root": lambda z: tf.sqrt(tf.concat([z, tf.zeros_like(z)], -1)),
    "times a turn": lambda z: z * tf.exp(tf.complex(0.0, tf.constant([0.1, 0.2, 0.3, 0.4]))),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_arithmetic_and_moves_of_complex_numbers(move):
    x, y = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    np.testing.assert_allclose(
        *run_both(lambda x, y: parts(move(tf.complex(x, y))), x, y), rtol=1e-5, atol=1e-6
    )
