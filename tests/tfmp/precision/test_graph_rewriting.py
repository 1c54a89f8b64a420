"""graph_rewrite: a scope round grappler's mixed precision."""

import numpy as np
import pytest
import tensorflow as tf

import tfmp
from tfmp.precision import graph_rewriting
from tfmp.shared.framework_start import tensorflow_uses_onednn

RNG = np.random.default_rng(0)
X = tf.constant(RNG.standard_normal((32, 64)), tf.float32)
FIRST = tf.Variable(RNG.standard_normal((64, 128)), dtype=tf.float32)
SECOND = tf.Variable(RNG.standard_normal((128, 10)), dtype=tf.float32)


in_bfloat16 = pytest.mark.skipif(
    not tensorflow_uses_onednn(),
    reason="TensorFlow rewrites for oneDNN, which it does without on this processor",
)


def forward(x):
    return tf.nn.relu(x @ FIRST) @ SECOND


def options() -> dict[str, bool]:
    return {
        name: on
        for name, on in tf.config.optimizer.get_experimental_options().items()
        if "mixed_precision" in name and on
    }


@pytest.fixture(autouse=True)
def clean():
    assert options() == {}
    yield
    assert options() == {}


def test_the_option_holds_inside_and_what_was_before_is_restored():
    with pytest.raises(KeyError), tfmp.graph_rewrite():
        raise KeyError
    assert options() == {}
    with tfmp.graph_rewrite("float16"):
        assert options() == {"auto_mixed_precision": True}
        with tfmp.graph_rewrite("off"):
            assert options() == {}
        with tfmp.graph_rewrite("bfloat16"):
            assert options() == {"auto_mixed_precision_onednn_bfloat16": True}
        assert options() == {"auto_mixed_precision": True}


@in_bfloat16
def test_a_function_runs_rewritten_inside_and_as_written_outside():
    function = tf.function(forward)
    before = function(X).numpy()
    with tfmp.graph_rewrite("bfloat16"):
        inside = function(X).numpy()
    np.testing.assert_array_equal(function(X).numpy(), before)
    # bfloat16 has 8 bits; sums of 128 products of numbers around 8 and 1
    assert 0.01 < np.abs(inside - before).max() < 4


def test_a_processor_without_bfloat16_is_told(monkeypatch):
    monkeypatch.setattr(graph_rewriting, "tensorflow_uses_onednn", lambda: False)
    for dtype, told in {"bfloat16": True, "float16": False}.items():
        with tfmp.graph_rewrite(dtype) as rewrite:
            assert ("TF_ENABLE_ONEDNN_OPTS=1 before" in str(rewrite)) is told


def test_wrong_arguments():
    with (
        pytest.raises(ValueError, match="expects one of 'float16', 'bfloat16', 'off'; received 16"),
        tfmp.graph_rewrite(16),
    ):
        pass
