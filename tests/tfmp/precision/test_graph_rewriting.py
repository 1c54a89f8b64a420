"""graph_rewrite: a scope round grappler's mixed precision, and what it changed, read back."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfmp
from tfmp.precision import graph_rewriting
from tfmp.precision.graph_rewriting import VARIABLE, decide
from tfmp.shared.framework_start import tensorflow_uses_onednn

RNG = np.random.default_rng(0)
X = tf.constant(RNG.standard_normal((32, 64)), tf.float32)
Y = tf.zeros((32,), tf.int32)
FIRST = tf.Variable(RNG.standard_normal((64, 128)), dtype=tf.float32)
SECOND = tf.Variable(RNG.standard_normal((128, 10)), dtype=tf.float32)


in_bfloat16 = pytest.mark.skipif(
    not tensorflow_uses_onednn(),
    reason="TensorFlow rewrites for oneDNN, which it does without on this processor",
)


def forward(x):
    return tf.nn.relu(x @ FIRST) @ SECOND


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, forward(x))
        loss = tf.reduce_mean(losses)
    for weight, gradient in zip((FIRST, SECOND), tape.gradient(loss, (FIRST, SECOND)), strict=True):
        weight.assign_sub(0.0 * gradient)
    return loss


def options() -> dict[str, bool]:
    return {
        name: on
        for name, on in tf.config.optimizer.get_experimental_options().items()
        if "mixed_precision" in name and on
    }


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
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


def test_operations_are_counted_for_a_card_that_is_not_here():
    with tfmp.graph_rewrite() as rewrite:
        found = rewrite.inspect(train_step, X, Y)
    assert found.changed["MatMul"] == 5  # two forward, three backward
    assert found.kept["SparseSoftmaxCrossEntropyWithLogits"] == 1
    assert found.casts > 0
    assert found.assumed is not bool(tf.config.list_physical_devices("GPU"))
    if found.assumed:
        assert str(found).startswith(f"{found.changed_ops} operations in float16")
        assert "(assumed: there is none here)" in str(found)
    assert found.to_dict()["changed_ops"] == sum(found.changed.values())


def test_a_processor_without_bfloat16_is_told(monkeypatch):
    monkeypatch.setattr(graph_rewriting, "tensorflow_uses_onednn", lambda: False)
    for dtype, told in {"bfloat16": True, "float16": False}.items():
        with tfmp.graph_rewrite(dtype) as rewrite:
            found = rewrite.inspect(tf.nn.relu, X)
        assert ("TF_ENABLE_ONEDNN_OPTS=1 before" in str(found)) is told
        assert ("no matrix products" in str(found)) is not told


def test_what_xla_compiles_is_not_rewritten():
    compiled = tf.function(forward, jit_compile=True)

    @tf.function
    def around(x):
        return compiled(x)

    with tfmp.graph_rewrite() as rewrite:
        assert rewrite.inspect(compiled, X).changed_ops == 0
        found = rewrite.inspect(around, X)
    assert found.changed_ops == 0
    assert "jit_compile=True" in str(found)
    # and so it is when it runs
    expected = around(X).numpy()
    with tfmp.graph_rewrite("bfloat16"):
        np.testing.assert_array_equal(around(X).numpy(), expected)


def test_python_functions_specs_loops_and_keras_models():
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3)])

    def loop(x):
        return tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s @ s), (0, x))

    with tfmp.graph_rewrite() as rewrite:
        found = rewrite.inspect(model, tf.TensorSpec((2, 8, 8, 1)))
        assert found.changed["Conv2D"] == 1
        found = rewrite.inspect(loop, tf.TensorSpec((4, 4)))
        assert dict(found.changed) == {"MatMul": 1}


@pytest.mark.parametrize(
    ("argument", "environment", "dtype", "reason"),
    [
        (None, None, "float16", "the default"),
        (None, "1", "float16", f"{VARIABLE}=1"),
        (None, "0", "off", f"{VARIABLE}=0"),
        ("bfloat16", "0", "bfloat16", "asked for by name"),
    ],
)
def test_the_environment_decides_where_no_dtype_is_given(argument, environment, dtype, reason):
    found = decide(argument, environment)
    assert (found.dtype, found.reason) == (dtype, reason)


def test_the_environment_is_honoured_and_told(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0")
    with tfmp.graph_rewrite() as rewrite:
        assert options() == {}
        assert str(rewrite) == f"graph rewrite off: {VARIABLE}=0"
        with pytest.raises(ValueError, match=r"it is off: .*=0\. graph_rewrite\('float16'\)"):
            rewrite.inspect(train_step, X, Y)


def test_wrong_arguments():
    with (
        pytest.raises(ValueError, match="expects one of 'float16', 'bfloat16', 'off'; received 16"),
        tfmp.graph_rewrite(16),
    ):
        pass
    with (
        tfmp.graph_rewrite() as rewrite,
        pytest.raises(TypeError, match=r"expects a tf\.function or another function; received 3"),
    ):
        rewrite.inspect(3)
