"""A choice among many branches."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters import convert, validate
from tfmp.converters.onnx.export.export import export_onnx

X = normal(3, 4)


def chosen(index):
    """An index that no optimizer can fold."""
    return lambda x: ops.cast(ops.sum(x) * 0, "int32") + index


@pytest.mark.parametrize("index", [-2, 0, 2, 9])
def test_every_index_calls_its_branch(index):
    def switch(x):
        # TensorFlow's own, which does not clip: an index outside means the last branch.
        branches = [lambda: tf.exp(x), lambda: tf.tanh(x), lambda: tf.cos(x), lambda: x * 3]
        return tf.switch_case(chosen(index)(x), branches)

    expected, received = run_both(switch, X)
    last = [np.exp, np.tanh, np.cos][index] if 0 <= index < 3 else lambda x: 3 * x
    np.testing.assert_allclose(expected, last(X), rtol=1e-5)
    np.testing.assert_allclose(received, expected, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_as_few_branches_as_there_are(count):
    def switch(x):
        return ops.switch(chosen(0)(x), [ops.exp, ops.tanh, ops.cos][:count], x)

    np.testing.assert_allclose(*run_both(switch, X), rtol=1e-5)
    nodes = export_onnx(source_of(switch, X)).graph.all_nodes()
    assert sum(node.op_type == "If" for node in nodes) == count - 1


def test_a_branch_that_chooses_again_and_one_with_weights():
    kernel = tf.Variable(normal(4, 4, seed=1))

    def inner(x):
        return ops.switch(chosen(1)(x), [ops.exp, lambda x: tf.matmul(x, kernel), ops.cos], x)

    def switch(x):
        return ops.switch(chosen(1)(x), [ops.tanh, inner, ops.sin], x)

    np.testing.assert_allclose(*run_both(switch, X), rtol=1e-5, atol=1e-6)


class Switch(tf.Module):
    """Chooses among three branches, of which one has weights."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(normal(4, 4, seed=1))

    @tf.function(
        input_signature=[tf.TensorSpec((None, 4), name="x"), tf.TensorSpec((), tf.int32, name="k")]
    )
    def serve(self, x: tf.Tensor, k: tf.Tensor) -> dict[str, tf.Tensor]:
        branches = [lambda: tf.matmul(x, self.kernel), lambda: tf.nn.relu(x), lambda: 2 * x]
        return {"y": tf.switch_case(k, branches)}


@pytest.mark.parametrize("to", ["onnx", pytest.param("tflite", marks=pytest.mark.slow)])
def test_choices_in_saved_models_become_files(to: str, tmp_path: Path):
    module = Switch()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.serve)
    file = convert(tmp_path / "saved", to, tmp_path / f"out.{to}", precision="fp32")
    for k in (0, 1, 2, 5, -1):
        report = validate(tmp_path / "saved", file, {"x": X, "k": np.array(k, np.int32)})
        (candidate,) = report.candidates
        assert candidate.error is None
        assert candidate.outputs[0].rel_l2 < 1e-6
