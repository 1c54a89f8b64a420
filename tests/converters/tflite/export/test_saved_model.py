"""What TensorFlow's converter is told of a model."""

import tensorflow as tf

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
