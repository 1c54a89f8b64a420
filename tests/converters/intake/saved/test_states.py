"""Streaming models: the variables that a SavedModel writes are inputs and outputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfmp.converters import convert
from tfmp.converters.intake import open_source
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.tflite.file import TFLiteModel


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


@pytest.mark.slow
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


def stateful(folder: Path, step: Callable, spec: tf.TensorSpec, **states: Any) -> Path:
    """A SavedModel of a function of a dict of variables and of one input."""
    module = tf.Module()
    module.states = {name: tf.Variable(value, name=name) for name, value in states.items()}
    serve = tf.function(lambda x: step(module.states, x), input_signature=[spec])
    tf.saved_model.save(module, str(folder), signatures=serve)
    return folder


def summed(states, x):
    for value in x:
        states["total"].assign_add(value)
    return {"y": states["total"].read_value()}


def kept_or_not(states, x):
    def keep():
        states["total"].assign(x[0])
        return x

    y = tf.cond(tf.reduce_sum(x) > states["total"], keep, lambda: 2.0 * x)
    return {"y": y + states["total"]}


@pytest.mark.parametrize("step", [summed, kept_or_not])
def test_loops_and_branches_read_and_write_states(step: Callable, tmp_path: Path):
    spec = tf.TensorSpec((4,), name="x")
    source = open_source(stateful(tmp_path / "model", step, spec, total=0.5))
    states = {"total": tf.Variable(0.5)}
    total = np.float32(0.5)
    for x in BLOCKS[:, 0]:
        expected = tf.function(step)(states, tf.constant(x))["y"]
        received = source.forward({"x": x, "total": total})
        np.testing.assert_allclose(received["y"], expected, rtol=1e-6)
        total = received["total/next"]
        np.testing.assert_allclose(total, states["total"], rtol=1e-6)


class Ring(tf.Module):
    """Keeps the last rows in a variable."""

    def __init__(self, change) -> None:
        super().__init__()
        self.rows = tf.Variable(tf.zeros((4, 3)), name="rows")
        self.change = change

    @tf.function(input_signature=[tf.TensorSpec((1, 3), name="block")])
    def serve(self, block):
        self.change(self.rows, block)
        return {"sum": tf.reduce_sum(tf.gather(self.rows, [0, 2]), axis=0, keepdims=True)}


def ring(folder: Path, change) -> Path:
    module = Ring(change)
    tf.saved_model.save(module, str(folder), signatures=module.serve)
    return folder


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        ("ResourceScatterUpdate", lambda v, x: v.scatter_update(tf.IndexedSlices(x, [1]))),
        ("ResourceStridedSliceAssign", lambda v, x: v[1:2].assign(x)),
    ],
)
def test_a_state_that_changes_in_part_is_refused(operation: str, change, tmp_path: Path):
    with pytest.raises(ConversionError, match=f"{operation} .* a part of the state 'rows' in pla"):
        open_source(ring(tmp_path / "ring", change))


def test_rows_of_a_state_are_gathered(tmp_path: Path):
    def change(rows, block):
        rows.assign(tf.concat([rows[1:], block], axis=0))

    source = open_source(ring(tmp_path / "ring", change))
    expected = Ring(change)
    blocks = BLOCKS[:, :, :3]
    for block, received in zip(blocks, in_steps(source, blocks, "block"), strict=True):
        np.testing.assert_allclose(received["sum"], expected.serve(block)["sum"], rtol=1e-6)


def test_scalar_states_and_states_of_other_sizes_fit_tflite(tmp_path: Path):
    def deep(states, block):
        hidden, count = states["hidden"], states["count"]
        hidden.assign(tf.stack([hidden[1], tf.tanh(block + hidden[0])]))
        count.assign_add(1.0)
        return {"out": block + hidden[1] * count}

    block = tf.TensorSpec((1, 4), name="block")
    stateful(tmp_path / "deep", deep, block, hidden=tf.zeros((2, 1, 4)), count=0.0)
    file = convert(tmp_path / "deep", "tflite", tmp_path / "deep.tflite", precision="fp32")
    (signature,) = TFLiteModel(file.path).signatures.values()
    assert sorted(spec.shape for spec in signature.inputs) == [(), (1, 4), (2, 1, 4)]


@pytest.mark.slow
def test_nothing_in_the_graph_waits_for_a_value_that_nobody_feeds(tmp_path: Path):
    """Every tensor can be fetched, as the search for overflow does."""
    spec = tf.TensorSpec((None, 4), name="x")
    stateful(tmp_path / "model", lambda _, x: {"y": 2.0 * x, "same": x}, spec)
    source = open_source(tmp_path / "model")
    nodes = source.graph.graph.get_operations()
    fed = {tensor.op.name for tensor in source.graph.inputs}
    assert [node.name for node in nodes if node.type == "Placeholder"] == list(fed)
    assert not [node.name for node in nodes if node.name.startswith("Func/") and node.outputs]
    x = np.ones((3, 4), np.float32)
    file = convert(tmp_path / "model", "tflite", tmp_path / "m.tflite", data=x)
    assert file.report.candidates[0].error is None
    np.testing.assert_array_equal(source.forward({"x": x})["same"], x)
