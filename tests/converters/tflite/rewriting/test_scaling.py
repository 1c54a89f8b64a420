"""Offsets and scales of outputs that are left to the host, from the rewrite to the verdict."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops
from own_layer import Own

from tfmp.converters import open_source
from tfmp.converters.runners.litert import LiteRTRunner
from tfmp.converters.tflite.file import TFLiteModel
from tfmp.converters.tflite.rewriting.scaling import leave_scaling


def head(columns: int, offset: float, spread: float) -> keras.layers.Layer:
    kernel = keras.initializers.RandomNormal(stddev=spread / 2, seed=1)
    return layers.Dense(columns, None, True, kernel, keras.initializers.Constant(offset))


def model(*tail: Callable) -> keras.Model:
    x = keras.Input((8,), name="x")
    hidden = layers.Dense(16, "tanh", kernel_initializer=keras.initializers.GlorotNormal(seed=2))
    y = hidden(x)
    for layer in tail:
        y = layer(y)
    return keras.Model(x, {"y": y}, name="m")


X = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
SCALED = {
    "kelvin": lambda: model(head(1, 290, 3)),
    "degrees": lambda: model(head(2, 0, 1), layers.Rescaling([0.01, 0.02], [47.4, 8.5])),
    "days": lambda: model(head(1, 20003.7, 5)),
    "pascal": lambda: model(head(3, 101325, 300)),  # past FP16
    "own": lambda: model(head(1, 0, 1), Own(lambda y: 415 - y / 0.4)),
    "reshaped": lambda: model(head(8, 500, 2), layers.Reshape((4, 2))),
    "squeezed": lambda: model(head(1, 290, 2), Own(lambda y: ops.squeeze(y, -1) + 5)),
    "small": lambda: model(head(2, 0, 1), layers.Rescaling(1e-9)),
    "no_bias": lambda: model(Own(lambda y: y + 30.0), layers.Dense(2, use_bias=False)),
}


def test_fp16_holds_what_varies(tmp_path: Path, export: Callable) -> None:
    x = keras.Input((8,), name="x")
    made = {name: build() for name, build in SCALED.items()}
    for name, one in made.items():
        one.name = name
    source = open_source(keras.Model(x, {name: one(x)["y"] for name, one in made.items()}))
    changed, scaling = leave_scaling(source, lambda: [{"x": X}])
    file = export(changed, tmp_path / "m.tflite", scaling=scaling)
    some = {"x": X[:100]}
    exact = source.forward(some)
    with LiteRTRunner(file.path, force_fp16=True) as runner:
        outputs = runner.run(some)
        assert all(any(f"gives output {n!r} times" in note for note in runner.notes) for n in made)
    for name, expected in exact.items():
        assert outputs[name].dtype == np.float32
        error = np.sqrt(np.mean((outputs[name] - expected) ** 2, axis=0))
        # 0.009 of a standard deviation to infinity before.
        most = 5e-3 if name == "no_bias" else 1e-3
        assert (error / expected.std(axis=0)).max() < most, name
    operators = [operator.name for operator in TFLiteModel(file.path).operators]
    assert not {"MUL", "DIV", "SUB"} & set(operators), "the product has taken it in"


@pytest.mark.parametrize(
    "benign",
    [
        lambda: model(head(1, 0, 1)),
        lambda: model(layers.Dense(5, "softmax")),
        lambda: model(head(1, 290, 3), Own(ops.relu)),
    ],
)
def test_other_outputs_stay(benign: Callable) -> None:
    source = open_source(benign())
    assert leave_scaling(source, lambda: [{"x": X}]) == (source, {})


def test_an_output_that_is_read_inside_stays() -> None:
    x = keras.Input((8,), name="x")
    y = head(1, 290, 3)(x)
    source = open_source(keras.Model(x, {"y": y, "log": Own(ops.log)(y)}, name="m"))
    changed, scaling = leave_scaling(source, lambda: [{"x": X}])
    for one in (source, changed):
        np.testing.assert_array_equal(one.forward({"x": X})["log"], source.forward({"x": X})["log"])
    assert "log" not in scaling
