"""Offsets that cancel are taken out, wherever the outputs do not mind."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops
from own_layer import Own

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.tflite.rewriting.repair import repair_model

RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(200, 64)) + RNG.uniform(40, 120, (200, 1))).astype(np.float32)
POINTS = (RNG.normal(size=(50, 12, 3)) + 30 * RNG.normal(size=(50, 1, 3))).astype(np.float32)
X = RNG.normal(size=(200, 8)).astype(np.float32)


def variance(x):
    return ops.mean(x * x, -1, keepdims=True) - ops.mean(x, -1, keepdims=True) ** 2


def neighbours(x):
    squares = ops.sum(x * x, -1, keepdims=True)
    products = ops.matmul(x, ops.transpose(x, (0, 2, 1)))
    return ops.exp((2 * products - squares - ops.transpose(squares, (0, 2, 1))) / 4)


def dense(columns: int, spread: float, offset: float) -> keras.layers.Layer:
    kernel = keras.initializers.RandomNormal(stddev=spread, seed=1)
    return layers.Dense(columns, None, True, kernel, keras.initializers.Constant(offset))


def model(x: np.ndarray, *stack: Callable) -> keras.Model:
    y = inputs = keras.Input(x.shape[1:], name="x")
    for layer in stack:
        y = layer(y)
    return keras.Model(inputs, {"y": y}, name="m")


CASES = {
    "variance": (ROWS, [Own(variance, name="own")], "input x"),
    "distances": (POINTS, [Own(neighbours, name="own")], "input x"),
    "layer norm": (
        X,
        [dense(64, 0.3, 500.0), layers.LayerNormalization(), dense(2, 0.1, 0.0)],
        "layer dense",
    ),
    "temperature": (X, [dense(5, 0.02, 30.0), Own(lambda z: ops.softmax(z / 0.01))], "layer dense"),
}


@pytest.mark.parametrize("name", CASES)
def test_offsets_that_cancel_are_taken_out(name: str, tmp_path: Path, export: Callable) -> None:
    x, stack, where = CASES[name]
    source, batch = open_source(model(x, *stack)), {"x": x}
    plain = repair_model(source, lambda: [batch], overflow=False)
    assert plain.changes == ()
    found = repair_model(source, lambda: [batch])
    assert found.left == found.lost == ()
    assert {change.what for change in found.changes} == {"offset that cancels taken out"}
    assert all(change.layer.startswith(where) for change in found.changes)
    assert all(change.after < change.before for change in found.changes)
    file = export(found.source, tmp_path / "m.tflite")
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        received = runner.run(batch)["y"]
    expected = source.forward(batch)["y"]
    error = np.linalg.norm(received - expected) / np.linalg.norm(expected)
    assert error < 0.01, "0.1 and more before"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.mean(x * x, -1, keepdims=True) - 1.001 * ops.mean(x, -1, keepdims=True) ** 2,
        lambda x: ops.sin(x + 500.0),
        lambda x: ops.arccosh(x + 500.0),  # TFLite has none: its sums are no tensors of the model
    ],
)
def test_an_offset_that_outputs_need_stays(function: Callable) -> None:
    source = open_source(model(X + 80, Own(function, name="own")))
    found = [repair_model(source, lambda: [{"x": X + 80}], each) for each in (False, True)]
    assert not any("offset" in change.what for each in found for change in each.changes)
