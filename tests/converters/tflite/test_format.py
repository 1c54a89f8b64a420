"""Each remedy that a FAIL of a .tflite file names is walked: to a PASS, or to the honest end."""

import re
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops
from own_layer import Own

from tfmp.converters import DriftBudget, convert

X = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
STEPS = np.random.default_rng(1).integers(0, 1000, (400, 1)).astype(np.float32)
CODES = X[:32] + 40
ONNX = "on these samples: tfmp-convert onnx"
RATES = np.exp(-np.log(10000) * np.arange(16) / 16).astype(np.float32)


def own(function: Callable) -> Own:
    return Own(function, name="own")


def model(*stack: Callable, columns: int = 8) -> keras.Model:
    keras.utils.set_random_seed(5)
    x = inputs = keras.Input((columns,), name="x")
    for layer in stack:
        x = layer(x)
    return keras.Model(inputs, {"y": x}, name="m")


def dense(columns: int, scale: float = 1.0, offset: float = 0.0) -> keras.layers.Layer:
    kernel = keras.initializers.RandomNormal(stddev=scale / 3, seed=1)
    return layers.Dense(columns, None, True, kernel, keras.initializers.Constant(offset))


def distances(x):
    """From points that a table holds, squared."""
    return ops.sum(x * x, -1, keepdims=True) + ops.sum(CODES**2, -1) - 2 * ops.matmul(x, CODES.T)


def hyperbolic(x):
    """Distances near the edge of a Poincare ball."""
    x = x / ops.sqrt(ops.sum(x * x, -1, keepdims=True))
    one, other = x * 0.9999, x[:, ::-1] * 0.9998
    apart = ops.sum((one - other) ** 2, -1, keepdims=True)
    edges = [1 - ops.sum(each * each, -1, keepdims=True) for each in (one, other)]
    return ops.arccosh(1 + 2 * apart / (edges[0] * edges[1]))


def inner() -> Callable:
    return own(lambda x: ops.mean(ops.square(x * 500), -1, keepdims=True) / 1e5)


# The model, the options that its FAIL names, and what is said beside or instead of them.
REMEDIES = {
    "overflow": (
        lambda: model(inner(), dense(2)),
        X,
        "--repair",
        "FP16 then holds the numbers of layer own",
    ),
    "angle": (
        lambda: model(own(lambda t: ops.sin(t * RATES)), dense(4), columns=1),
        *(STEPS, "--repair", "FP16 then holds the numbers of layer own"),
    ),
    "offset": (
        lambda: model(dense(1, 5, 20003.7)),
        *(X, "--host-output-scaling", "puts the offset of 'y' back"),
    ),
    "large output": (lambda: model(dense(2, 1e5)), X, "--host-output-scaling", "the offset of"),
    "large positive output": (
        lambda: model(dense(2, 1e5), layers.ReLU()),
        *(X, "--host-output-scaling --repair", "FP16 then holds the numbers of "),
    ),
    "both": (
        lambda: model(inner(), dense(2, 1e-3, 290)),
        *(X, "--host-output-scaling --repair", "FP16 then holds the numbers of "),
    ),
    "floor": (
        lambda: model(own(lambda x: ops.log(ops.where(x < 1e-9, 1e-9, x)))),
        *(X, "", "layer own: FP16 makes 1e-09 0, and the samples reach it. Write a limit"),
    ),
    "fractions": (
        lambda: model(own(lambda t: ops.sin(t * 0.99 * RATES)), dense(4), columns=1),
        *(STEPS + 0.123, "", "FP16 rounds the position"),
    ),
    "exponential output": (
        lambda: model(dense(2, 2, 12), own(ops.exp)),
        *(X, "", "FP16 ends at 65504, and no rewrite keeps it below. As ONNX the model keeps to"),
    ),
    "edge of a ball": (  # a repair changes something, and the numbers are still NaN
        lambda: model(own(hyperbolic)),
        *(X, "", "As ONNX the model keeps to the budget on these samples: tfmp-convert onnx"),
    ),
    "difference": (
        lambda: model(
            own(lambda x: ops.mean(x * x, -1, keepdims=True) - ops.mean(x, -1, keepdims=True) ** 2),
            dense(2),
        ),
        *(X + 30, "--repair", "FP16 then holds the numbers of input x"),
    ),
    "distance": (
        lambda: model(own(lambda x: ops.exp(-distances(x) / 16)), dense(2)),
        *(X + 40, "", "layer own: it subtracts numbers up to"),
    ),
    "learned angle": (
        lambda: model(dense(4, 30), own(ops.sin), dense(2)),
        *(X, "", "FP16 rounds the position, up to 3.9"),
    ),
    "steps of an input": (
        lambda: model(layers.LayerNormalization(), dense(2)),
        *(X + 80, "", "FP16 rounds input 'x', which alone changes output 'y' by"),
    ),
    "vanishing input": (
        lambda: model(own(lambda x: ops.log(x + 1e-12)), dense(2)),
        *(np.float32(10) ** (2 * X - 6), "", "input x: FP16 makes zero of "),
    ),
    "rounded input": (
        lambda: model(own(lambda x: (x - 47.4) * 300), dense(2, 1, 47)),
        *(X * 0.003 + 47.4, "", "FP16 rounds input 'x', which alone changes output 'y' by"),
    ),
    "large input": (
        lambda: model(layers.Rescaling(1e-5), dense(2)),
        *(X * 1e5, "", "FP16 ends at 65504: scale it before the model. As ONNX the model keeps"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEDIES)
def test_remedies_are_walked(name: str, tmp_path: Path) -> None:
    make, x, flags, told = REMEDIES[name]
    report = convert(make(), "tflite", tmp_path / "m.tflite", data=x).report
    assert report.verdict.name != "PASS"
    remedy = report.candidates[0].remedy
    assert told in remedy
    assert re.findall(r"--[\w-]+", remedy.partition(":")[0] * bool(flags)) == [
        *flags.split(),
        *["--data"] * bool(flags),
    ]
    options = {flag.strip("-").replace("-", "_"): True for flag in flags.split()}
    precision = "fp16" if flags else "fp32"
    walked = convert(make(), "tflite", tmp_path / "again.tflite", precision, data=x, **options)
    if name != "floor":  # whose end is a line of the layer
        assert walked.report.verdict.name == "PASS", walked.report.candidates[0].reasons


def test_rounding_alone_has_no_option_that_mends_it(tmp_path: Path) -> None:
    strict = DriftBudget(rel_l2=1e-9)
    report = convert(model(dense(2)), "tflite", tmp_path / "m.tflite", data=X, budget=strict).report
    told = report.candidates[0].reasons[-1]
    assert told == f"As ONNX the model keeps to the budget {ONNX} --precision mixed"
