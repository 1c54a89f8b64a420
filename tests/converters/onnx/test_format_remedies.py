"""Each remedy that a FAIL of an .onnx file names is walked: to a PASS, or to the honest end."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp.converters import DriftBudget, convert

X = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)


def model(*stack: keras.layers.Layer) -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((8,), name="x"), *stack], name="net")


def dense(units: int, stddev: float = 0.3) -> keras.layers.Layer:
    return layers.Dense(units, kernel_initializer=keras.initializers.RandomNormal(0, stddev, 1))


class Own(keras.layers.Layer):
    """Layers' own code: a function of one tensor."""

    def __init__(self, function: Callable, **options: object) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


# Name: the model, the factor of its inputs, precision, a limit on rel_l2, the remedies in turn.
REMEDIES = {
    "overflow": (
        lambda: model(dense(16, 3e4), dense(16, 1e-5), dense(2)),
        *(1, "fp16", 0.01, ["--precision mixed"]),
    ),
    "overflow in a square": (
        lambda: model(dense(16), Own(lambda x: ops.sqrt(x * x)), dense(2)),
        *(1e4, "fp16", 0.01, ["--precision mixed"]),
    ),
    "digits of bfloat16": (
        lambda: model(dense(16), dense(16), dense(2)),
        *(1, "bf16", 0.002, ["--precision fp16"]),
    ),
    "bfloat16, and past FP16": (
        lambda: model(dense(16, 3e4), dense(16, 1e-5), dense(2)),
        *(1, "bf16", 0.002, ["--precision fp16", "--precision mixed"]),
    ),
    "limit that rounding breaks": (
        lambda: model(dense(16), dense(16), dense(2)),
        *(1, "fp16", 1e-5, ["--precision mixed"]),
    ),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_remedies_are_walked(name: str, tmp_path: Path) -> None:
    make, factor, precision, limit, remedies = REMEDIES[name]
    budget, x = DriftBudget(rel_l2=limit), X * np.float32(factor)
    walked = []
    while True:
        path = tmp_path / f"{len(walked)}.onnx"
        report = convert(make(), output=path, precision=precision, data=x, budget=budget).report
        flags = report.candidates[0].remedy_flags
        if report.verdict != "FAIL":
            break
        assert flags is not None, report.candidates[0].reasons
        walked.append(flags)
        precision = flags.removeprefix("--precision ")
    assert walked == remedies
    assert report.verdict == "PASS", report.candidates[0].reasons
