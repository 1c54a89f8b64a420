"""Streaming models: the variables that a SavedModel writes are inputs and outputs."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfmp.converters.intake import open_source
from tfmp.converters.intake.saved import inlined
from tfmp.converters.shared.errors import ConversionError


class Echo(tf.Module):
    """Mixes each block with the end of the one before, and counts the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(2.0, name="scale")
        self.last = tf.Variable(tf.zeros((1, 2)), name="echo/last")
        self.count = tf.Variable(0.0, name="echo/count")

    @tf.function(input_signature=[tf.TensorSpec((1, 4), name="block")])
    def serve(self, block):
        mixed = block * self.scale + tf.concat([self.last, self.last], axis=1)
        self.last.assign(block[:, 2:])
        self.count.assign_add(1.0)
        return {"mixed": mixed, "newest": self.last + self.count}


BLOCKS = np.random.default_rng(0).standard_normal((5, 1, 4), dtype=np.float32)


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    module = Echo()
    tf.saved_model.save(module, str(tmp_path / "echo"), signatures=module.serve)
    return tmp_path / "echo"


def in_steps(source, blocks, name: str) -> list[dict]:
    """Runs blocks one behind the other, the states of each call fed to the next."""
    shapes = {spec.name: spec.shape for spec in source.inputs if spec.name != name}
    states = {state: np.zeros(shape, np.float32) for state, shape in shapes.items()}
    found = []
    for block in blocks:
        outputs = source.forward({name: block, **states})
        states = {state: outputs[f"{state}/next"] for state in states}
        found.append(outputs)
    return found


def test_states_are_inputs_and_outputs_and_stay_with_the_caller(echo: Path):
    source = open_source(echo)
    assert [spec.name for spec in source.inputs] == ["block", "echo/last", "echo/count"]
    names = [spec.name for spec in source.outputs]
    assert names == ["mixed", "newest", "echo/last/next", "echo/count/next"]
    assert "echo/last, echo/count" in source.origin.notes[0]
    expected = Echo()
    for block, received in zip(BLOCKS, in_steps(source, BLOCKS, "block"), strict=True):
        for name, value in expected.serve(tf.constant(block)).items():
            np.testing.assert_allclose(received[name], value, rtol=1e-6)
    again = in_steps(source, BLOCKS[:1], "block")[0]
    np.testing.assert_allclose(again["echo/count/next"], 1.0)


def test_a_stateful_lstm_of_keras_2(tmp_path: Path):
    layers = tf_keras.layers
    model = tf_keras.Sequential(
        [
            layers.InputLayer(batch_input_shape=(1, 4, 1), name="block"),
            layers.LSTM(3, stateful=True, return_sequences=True),
            layers.Dense(2, name="scores"),
        ]
    )
    model.save(tmp_path / "lstm", save_format="tf")
    source = open_source(tmp_path / "lstm")
    states = [spec for spec in source.inputs if "state" in spec.name]
    assert [spec.shape for spec in states] == [(1, 3), (1, 3)]
    model.reset_states()
    blocks = BLOCKS.reshape(5, 1, 4, 1)
    for block, received in zip(blocks, in_steps(source, blocks, "block"), strict=True):
        np.testing.assert_allclose(received["scores"], model(block), rtol=1e-4, atol=1e-6)


def test_a_state_that_a_loop_writes_is_refused(tmp_path: Path):
    class Looped(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = tf.Variable(0.0, name="total")

        @tf.function(input_signature=[tf.TensorSpec((4,), name="x")])
        def serve(self, x):
            for value in x:
                self.total.assign_add(value)
            return {"sum": self.total.read_value()}

    module = Looped()
    tf.saved_model.save(module, str(tmp_path / "looped"), signatures=module.serve)
    with pytest.raises(ConversionError, match=r"(While|total).*state inside of it"):
        open_source(tmp_path / "looped")


def test_a_function_that_only_reads_has_no_states():
    scale = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec((2,))])
    def double(x):
        return x * scale

    assert inlined(double.get_concrete_function()).states == ()
