"""What TensorFlow's converter is told of a model."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from tfmp.converters import convert
from tfmp.converters.tflite.rewriting import gaps


@pytest.mark.slow
def test_a_file_with_other_answers_than_the_model_is_told(tmp_path, monkeypatch):
    @tf.function(input_signature=[tf.TensorSpec((1, 8), name="x")])
    def serve(x):
        product = x @ tf.reshape(tf.tile(x, [1, 4]), (8, 4))
        return {"bad": tf.nn.relu(product), "good": x + 1, "drawn": tf.random.normal((64,))}

    artifact = convert(serve, to="tflite", output=tmp_path / "model.tflite")
    assert not any("far from" in note for note in artifact.notes)
    monkeypatch.delitem(gaps.GAPS, "Relu")
    artifact = convert(serve, to="tflite", output=tmp_path / "wrong.tflite")
    (told,) = (note for note in artifact.notes if "far from" in note)
    assert told.startswith("output 'bad' is far from the model's own on a random sample")


@tf.custom_gradient
def passed_on(x):
    return x, lambda upstream: upstream


@pytest.mark.slow
def test_an_activation_stays_behind_a_product_with_a_computed_matrix(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec((1, 8), name="x")])
    def serve(x):
        one, two, three = (x @ tf.reshape(tf.tile(k * x, [1, 4]), (8, 4)) for k in (1.0, 2.0, 3.0))
        between = one, tf.nn.bias_add(two, tf.zeros(4)), passed_on(three)
        return tf.concat([tf.nn.relu(part) for part in between], 1)

    x = np.array([[1, -2, 3, 1, -1, 2, -3, 1]], np.float32)
    convert(serve, to="tflite", output=tmp_path / "model.tflite")
    run = Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    (received,) = run(x=x).values()
    np.testing.assert_allclose(received, serve(x), rtol=1e-3, atol=1e-3)
