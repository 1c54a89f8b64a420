"""Complex numbers as pairs."""

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import export_onnx
from tfmp.converters.onnx.graph import open_once


def test_the_angle_of_a_complex_number_in_every_quadrant_and_on_the_axes():
    @tf.function(input_signature=[tf.TensorSpec((None,), name="a"), tf.TensorSpec((None,))])
    def angle(a, b):
        return tf.math.angle(tf.complex(a, b))

    source = open_source(angle)
    values = np.array([-2.0, -1.0, 0.0, 1.0, 3.0], np.float32)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    names = [spec.name for spec in source.inputs]
    batch = dict(zip(names, (a, b), strict=True))
    (output,) = source.outputs
    (received,) = open_once(export_onnx(source))([output.name], batch)
    np.testing.assert_allclose(received, np.arctan2(b, a), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "norm"), [(1, None), (2, None), (2, "ortho"), (3, None), (3, "ortho"), (4, None)]
)
def test_cosine_transforms(kind, norm):
    """Of which MFCCs are made."""
    np.testing.assert_allclose(
        *run_both(lambda x: tf.signal.dct(x, kind, norm=norm), normal(2, 3, 16)),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("length", [None, [8, 9], [12, 16]])
def test_real_transforms_of_two_axes_and_back(length):
    def there_and_back(x):
        terms = tf.signal.rfft2d(x, length)
        return tf.signal.irfft2d(terms * tf.exp(tf.complex(0.0, 0.3)), length)

    np.testing.assert_allclose(*run_both(there_and_back, normal(2, 10, 12)), rtol=1e-4, atol=1e-5)


def test_a_transform_along_a_size_that_varies():
    """As behind a dense layer and a transpose, whose sizes TensorFlow does not follow."""

    @tf.function(input_signature=[tf.TensorSpec((None, 3, None), name="x")])
    def there_and_back(x):
        return tf.signal.irfft(tf.signal.rfft(x, [16]) * tf.complex(1.0, 0.5), [16])

    source = open_source(there_and_back)
    run = open_once(export_onnx(source))
    for size in (12, 16, 20):
        values = normal(2, 3, size)
        (received,) = run([source.outputs[0].name], {"x": values})
        np.testing.assert_allclose(received, there_and_back(values), rtol=1e-4, atol=1e-5)
