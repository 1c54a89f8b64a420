"""What TensorFlow's converter is told of a model."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from tfmp.converters import convert
from tfmp.converters.tflite.export import saved_model
from tfmp.converters.tflite.export.saved_model import _origins


def test_outputs_that_are_computed_alike_have_one_origin() -> None:
    """The converter merges them, and LiteRT finds only one of two outputs that are one tensor."""
    weights = tf.Variable(tf.ones((3, 3)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3))], autograph=False)
    def call(x):
        drawn = [tf.random.normal((2,)) for _ in range(2)]
        return x @ weights, tf.nn.relu(x @ weights), tf.identity(x @ weights), *drawn

    keys = [key for _, key in _origins(call.get_concrete_function())]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 4


@pytest.mark.slow
def test_a_file_with_other_answers_than_the_model_is_told(tmp_path, monkeypatch):
    @tf.function(input_signature=[tf.TensorSpec((1, 8), name="x")])
    def serve(x):
        product = x @ tf.reshape(tf.tile(x, [1, 4]), (8, 4))
        return {"bad": tf.nn.relu(product), "good": x + 1, "drawn": tf.random.normal((64,))}

    artifact = convert(serve, to="tflite", output=tmp_path / "model.tflite")
    assert not any("far from" in note for note in artifact.notes)
    monkeypatch.setattr(saved_model, "keep_activations", lambda library: None)
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
