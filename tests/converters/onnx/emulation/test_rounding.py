"""Subnormal numbers that are zero, and TF32."""

import numpy as np
import pytest
from onnx_graphs import half, op_types, parse, run, run_emulated

from tfmp.converters.onnx.emulation.rounding import tf32

TINY = 2.0**-14  # the smallest normal number of FP16
NUMBERS = np.array(
    [
        0,
        -0.0,
        TINY,
        -TINY,
        TINY * 1023 / 1024,
        2**-24,
        -(2**-24),
        1,
        65504,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)
FLUSHED = np.where(np.abs(NUMBERS) < TINY, 0, NUMBERS)


@pytest.mark.parametrize("profile", ["webgpu", "litert-gpu"])
def test_subnormal_numbers_are_zero_and_nan_stays(profile: str):
    text = "agraph (float[N] x) => (float[N] y) <float one = {1}> { y = Mul(x, one) }"
    converted, _ = half(parse(text))
    np.testing.assert_array_equal(run_emulated(converted, {"x": NUMBERS}, profile)["y"], FLUSHED)
    for other in ("gpu", "ort-cuda", "tensorrt", "pessimistic"):
        received = run_emulated(converted, {"x": NUMBERS}, other)["y"]
        np.testing.assert_array_equal(received, NUMBERS)


def test_results_and_constants_are_flushed():
    text = (
        "agraph (float[N] x) => (float[N] y) <float c = {2e-5}> { a = Mul(x, x)\n y = Add(a, c) }"
    )
    converted, _ = half(parse(text))
    x = np.array([0.005, 0.01], np.float32)
    np.testing.assert_allclose(run_emulated(converted, {"x": x})["y"], x * x + 2e-5, rtol=1e-2)
    received = run_emulated(converted, {"x": x}, "webgpu")["y"]
    np.testing.assert_allclose(received, [0, 1e-4], rtol=1e-2)


def test_fp16_inputs_are_flushed():
    text = "agraph (float[N] x) => (float[N] y) { y = Add(x, x) }"
    converted, _ = half(parse(text), fp16_io=True)
    x = np.array([4e-5, 8e-5], np.float16)
    received = run_emulated(converted, {"x": x}, "webgpu")["y"]
    assert received.dtype == np.float16
    np.testing.assert_allclose(received, [0, 16e-5], rtol=1e-2)


def test_tf32_keeps_ten_fraction_bits():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    exponent = np.exp2(np.floor(np.log2(np.abs(x.astype(np.float64)))))
    expected = np.round(x / exponent * 1024) / 1024 * exponent
    np.testing.assert_array_equal(tf32(x), expected.astype(np.float32))


def test_products_that_stay_in_fp32_are_tf32_on_nvidia_and_no_others():
    text = """
    agraph (float[N, 8] x) => (float[N, 8] y) { a = MatMul(x, w)
        b = Neg(a)
        y = MatMul(b, w) }
    """
    w = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    x = np.random.default_rng(2).standard_normal((5, 8)).astype(np.float32)
    model = parse(text, w=w)
    model.graph.node[0].name, model.graph.node[2].name = "first", "second"
    mixed, _ = half(model, keep_fp32=["first", "second"])
    mixed.graph.node[[n.op_type for n in mixed.graph.node].index("Neg")].name = "neg"
    assert "MatMul" in op_types(mixed)
    for profile in ("ort-cuda", "tensorrt"):
        first = (tf32(x) @ tf32(w)).astype(np.float32)
        expected = tf32(-first) @ tf32(w)
        received = run_emulated(mixed, {"x": x}, profile)["y"]
        np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)
        assert not np.allclose(received, run(model, {"x": x})["y"], rtol=1e-5, atol=1e-5)
    received = run_emulated(mixed, {"x": x}, "webgpu")["y"]
    np.testing.assert_allclose(received, run(model, {"x": x})["y"], rtol=1e-5, atol=1e-5)
