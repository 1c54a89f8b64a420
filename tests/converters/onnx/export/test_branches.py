"""A choice among many branches."""

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters.onnx.export.export import export_onnx

X = normal(3, 4)


def chosen(index):
    """An index that no optimizer can fold."""
    return lambda x: ops.cast(ops.sum(x) * 0, "int32") + index


@pytest.mark.parametrize("index", [-2, 0, 1, 2, 3, 9])
def test_every_index_calls_its_branch(index):
    def switch(x):
        # TensorFlow's own, which does not clip: an index outside means the last branch.
        branches = [lambda: tf.exp(x), lambda: tf.tanh(x), lambda: tf.cos(x), lambda: x * 3]
        return tf.switch_case(chosen(index)(x), branches)

    expected, received = run_both(switch, X)
    last = [np.exp, np.tanh, np.cos][index] if 0 <= index < 3 else lambda x: 3 * x
    np.testing.assert_allclose(expected, last(X), rtol=1e-5)
    np.testing.assert_allclose(received, expected, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_few_branches_as_there_are(count):
    def switch(x):
        return ops.switch(chosen(0)(x), [ops.exp, ops.tanh, ops.cos][:count], x)

    np.testing.assert_allclose(*run_both(switch, X), rtol=1e-5)
    nodes = export_onnx(source_of(switch, X)).graph.all_nodes()
    assert sum(node.op_type == "If" for node in nodes) == max(count - 1, 1)


def test_a_branch_that_chooses_again_and_one_with_weights():
    kernel = tf.Variable(normal(4, 4, seed=1))

    def inner(x):
        return ops.switch(chosen(1)(x), [ops.exp, lambda x: tf.matmul(x, kernel), ops.cos], x)

    def switch(x):
        return ops.switch(chosen(1)(x), [ops.tanh, inner, ops.sin], x)

    np.testing.assert_allclose(*run_both(switch, X), rtol=1e-5, atol=1e-6)
