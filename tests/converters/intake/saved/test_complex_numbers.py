"""Complex arithmetic computes by its parts what TensorFlow computes."""

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both


def parts(z):
    return tf.stack([tf.math.real(z), tf.math.imag(z)], -1)


MOVES = {
    "product": lambda z: z * tf.reverse(z, [0]),
    "difference": lambda z: tf.exp(z) - tf.reverse(z, [0]) + z,
    "constant": lambda z: tf.constant([1 + 2j, 0.5j, 1, -1j], tf.complex64) * z + 1j * z,
    "cast": lambda z: tf.cast(tf.math.real(z), tf.complex64) * z,
    "signal": lambda z: (
        tf.cast(tf.abs(z), tf.complex64) * tf.exp(1j * tf.cast(tf.math.angle(z), tf.complex64))
    ),
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
    "times a turn": lambda z: z * tf.exp(tf.complex(0.0, tf.constant([0.1, 0.2, 0.3, 0.4]))),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_arithmetic_and_moves_of_complex_numbers(move):
    x, y = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    np.testing.assert_allclose(
        *run_both(lambda x, y: parts(move(tf.complex(x, y))), x, y), rtol=1e-5, atol=1e-6
    )
