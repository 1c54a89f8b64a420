"""The emulator rounds as FP16 does, everywhere and only where an FP16 kernel would."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from onnx_graphs import half, parse, run_emulated

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def emulated_identity() -> onnx.ModelProto:
    """x * 1 in FP16: what comes out is x rounded."""
    model = parse(
        "agraph (float[N] x) => (float[N] y) { y = Mul(x, one) }", one=np.ones(1, np.float32)
    )
    return half(model)[0]


def assert_rounds_as_numpy(values: np.ndarray) -> None:
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float16).astype(np.float32)
    received = run_emulated(emulated_identity(), {"x": values})["y"]
    same = (received.view(np.uint32) == expected.view(np.uint32)) | (
        np.isnan(received) & np.isnan(expected)
    )
    assert same.all(), values[~same][:5]


def test_every_half_is_kept_bit_for_bit():
    assert_rounds_as_numpy(HALVES.astype(np.float32))


@given(arrays(np.float32, 64, elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
@settings(max_examples=50, deadline=None)
def test_any_float_rounds_as_numpy_does(values: np.ndarray):
    assert_rounds_as_numpy(values)


def test_recurrent_states_are_rounded_to_bfloat16():
    """Against the formula of an RNN in NumPy, whose state is rounded at each step."""
    rng = np.random.default_rng(0)
    w, r = (rng.standard_normal((1, 4, size)).astype(np.float32) / 4 for size in (3, 4))
    text = """agraph (float[6, N, 3] x) => (float[6, 1, N, 4] y) {
        y = RNN<hidden_size = 4>(x, w, r)
    }"""
    options = {"low": ir.DataType.BFLOAT16, "target": "tensorrt"}
    model, _ = half(parse(text, opset=22, w=w, r=r), **options)
    x = rng.standard_normal((6, 5, 3)).astype(np.float32)
    state, expected = np.zeros((5, 4), np.float32), []
    w, r, x16 = (one.astype(ml_dtypes.bfloat16).astype(np.float32) for one in (w, r, x))
    for step in x16:
        state = np.tanh(step @ w[0].T + state @ r[0].T)
        state = state.astype(ml_dtypes.bfloat16).astype(np.float32)
        expected.append(state)
    received = run_emulated(model, {"x": x})["y"][:, 0]
    assert np.abs(received - np.array(expected)).max() <= 2.0**-8
    assert np.mean(received == np.array(expected)) > 0.95


def test_float16_inputs_and_outputs_keep_their_types():
    model = parse("agraph (float[N] x) => (float[N] y, float[N] x) { y = Exp(x) }")
    converted, _ = half(model, fp16_io=True)
    received = run_emulated(converted, {"x": np.linspace(-1, 1, 9, dtype=np.float16)})
    assert {name: value.dtype for name, value in received.items()} == {
        "y": np.float16,
        "x": np.float16,
    }
    np.testing.assert_array_equal(received["y"], np.exp(np.linspace(-1, 1, 9, dtype=np.float16)))
