"""Complex numbers as pairs."""

import numpy as np
import tensorflow as tf

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
