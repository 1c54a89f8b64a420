"""SavedModels without signatures: their functions, listed and chosen by name."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import InputError

X = np.ones((2, 3), np.float32)


class Scaled(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(3.0)

    @tf.function
    def __call__(self, x, training=False):
        return x * (self.scale if not training else 100.0)


class Pair(Scaled):
    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def encode(self, x):
        return x + self.scale

    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def halve(self, x):
        return x / 2


def saved(module: tf.Module, path: Path) -> Path:
    for training in (True, False):
        module.__call__.get_concrete_function(tf.TensorSpec((None, 3), name="x"), training)
    tf.saved_model.save(module, str(path))
    return path


def test_the_only_function_is_taken_as_it_infers(tmp_path: Path):
    source = open_source(saved(Scaled(), tmp_path / "m"))
    assert "no signatures: its function '__call__' was taken" in source.origin.notes[0]
    assert source.origin.format == "savedmodel"
    (received,) = source.forward({"x": X}).values()
    np.testing.assert_array_equal(received, 3 * X)


def test_one_of_several_is_chosen_by_name(tmp_path: Path):
    path = saved(Pair(), tmp_path / "m")
    message = r"has no usual function; its functions: '__call__' \(float32\[\?, 3\]\), 'encode' .*"
    with pytest.raises(InputError, match=message + r"Choose one with --signature"):
        open_source(path)
    (received,) = open_source(path, signature="encode").forward({"x": X}).values()
    np.testing.assert_array_equal(received, X + 3)
    with pytest.raises(InputError, match="has no function 'decode'; its"):
        open_source(path, signature="decode")


def test_a_concrete_function_and_a_module_without_one(tmp_path: Path):
    @tf.function
    def double(x):
        return 2.0 * x

    concrete = double.get_concrete_function(tf.TensorSpec((None, 3), name="x"))
    tf.saved_model.save(concrete, str(tmp_path / "m"))
    source = open_source(tmp_path / "m")
    (received,) = source.forward({source.inputs[0].name: X}).values()
    np.testing.assert_array_equal(received, 2 * X)
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    tf.saved_model.save(module, str(tmp_path / "m"))
    with pytest.raises(InputError, match="no signatures, and no function that takes tensors"):
        open_source(tmp_path / "m")


def test_a_function_that_writes_variables_hands_its_states_out(tmp_path: Path):
    class Sum(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = tf.Variable(tf.zeros((1, 3)), name="total")

        @tf.function
        def step(self, x, k):
            self.total.assign_add(k * x)
            return tf.identity(self.total), -self.total

    module = Sum()
    module.step.get_concrete_function(tf.TensorSpec((1, 3), name="x"), tf.TensorSpec((), name="k"))
    tf.saved_model.save(module, str(tmp_path / "m"))
    source = open_source(tmp_path / "m")
    assert [spec.name for spec in source.inputs] == ["x", "k", "total"]
    assert [spec.name for spec in source.outputs] == ["output_0", "output_1", "total/next"]
    assert list(source.layout.states) == ["total"]
    assert "its function 'step' was taken" in source.origin.notes[0]
    assert "keeps states between calls" in source.origin.notes[1]
    fed = {"x": X[:1], "k": np.float32(2), "total": np.full((1, 3), 5, np.float32)}
    for _ in range(2):  # nothing stays behind in the model
        received = source.forward(fed)
        np.testing.assert_array_equal(received["output_1"], np.full((1, 3), -7))
        np.testing.assert_array_equal(received["total/next"], np.full((1, 3), 7))
