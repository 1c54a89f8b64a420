"""A sigmoid's tail is no difference; other logits are one, however small the outputs."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import parse

from tfmp.converters.onnx.export.tails import agrees_before


def model(activation: str) -> ir.Model:
    return ir.from_proto(
        parse(f"""
        agraph (float[2, 3] x) => (float[2, 3] y) <float[1] w = {{2.0}}> {{
            z = Mul(x, w)
            y = {activation}(z)
        }}
        """)
    )


LOGITS = np.array([[-40.0, -20.0, 1.0], [-15.0, 3.0, -60.0]], np.float32)


def exact(activation: str, logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    if activation == "Sigmoid":
        return (1 / (1 + np.exp(-wide))).astype(np.float32)
    powers = np.exp(wide)
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("activation", ["Sigmoid", "Softmax"])
def test_tails_that_a_runtime_rounds_to_nothing(activation: str):
    expected = exact(activation, LOGITS)
    received = np.where(expected < 1e-7, 0, expected).astype(np.float32)
    batch = {"x": LOGITS / 2}
    assert not np.array_equal(expected, received)
    assert agrees_before(model(activation), "y", batch, expected, received)


@pytest.mark.parametrize("activation", ["Sigmoid", "Softmax"])
def test_other_logits_behind_outputs_as_small(activation: str):
    far = LOGITS - np.array([30.0, 30.0, 0.0], np.float32)
    far[:, 2] = 5.0
    expected = exact(activation, far[::-1] * np.array([1.2, 0.8, 1.0], np.float32))
    received = exact(activation, far)
    assert np.abs(expected - received).max() < 1e-6
    assert not agrees_before(model(activation), "y", {"x": far / 2}, expected, received)


def test_a_difference_beyond_float32s_step():
    expected = exact("Sigmoid", LOGITS)
    received = expected + np.float32(2e-6)
    assert not agrees_before(model("Sigmoid"), "y", {"x": LOGITS / 2}, expected, received)


def test_an_output_that_is_no_probability():
    tiny = np.full((2, 3), 1e-9, np.float32)
    assert not agrees_before(model("Tanh"), "y", {"x": LOGITS}, tiny, 2 * tiny)
