"""The emulator rounds as FP16 does, everywhere and only where an FP16 kernel would."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from onnx_graphs import VARIANCE, half, parse, run, run_emulated

from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.fp16.rewriter import prepare
from tfmp.converters.onnx.fp16.rules import FP16

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


def test_ties_and_their_neighbours_round_to_even():
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float32))
    ties = (finite[:-1] + finite[1:]) / 2
    around = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    assert_rounds_as_numpy(np.concatenate([ties, *around]).astype(np.float32))


@given(arrays(np.float32, 64, elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
@settings(max_examples=50, deadline=None)
def test_any_float_rounds_as_numpy_does(values: np.ndarray):
    assert_rounds_as_numpy(values)


@pytest.mark.parametrize(
    ("op", "reference"), [("Mul(a, b)", np.multiply), ("Exp(a)", lambda a, b: np.exp(a))]
)
def test_one_op_equals_numpy_float16(op: str, reference):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.01, 200, 4096).astype(np.float16) for _ in range(2))
    model = parse(f"agraph (float[N] a, float[N] b) => (float[N] y) {{ y = {op} }}")
    with np.errstate(over="ignore"):
        expected = reference(a.astype(np.float64), b.astype(np.float64)).astype(np.float16)
    batch = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    received = run_emulated(half(model)[0], batch)["y"].astype(np.float16)
    # A double rounding (exact -> float32 -> float16) may differ on near-ties by one spacing.
    off = np.abs(received.view(np.int16).astype(int) - expected.view(np.int16).astype(int))
    assert off.max() <= 1
    assert np.mean(off != 0) < 2e-3


def test_matrix_products_accumulate_in_fp32():
    ones = np.ones((4096, 1), np.float32)
    model = parse("agraph (float[N, 4096] x) => (float[N, 1] y) { y = MatMul(x, w) }", w=ones)
    received = run_emulated(half(model)[0], {"x": np.ones((1, 4096), np.float32)})["y"]
    # Summed in FP16 it would stop at 2048, where the spacing becomes 2.
    assert received.item() == 4096


def test_an_overflowing_variance_shows_here_and_not_on_onnx_runtimes_cpu():
    model = parse(VARIANCE)
    batch = {"x": np.random.default_rng(0).standard_normal((4, 1024), dtype=np.float32)}
    expected = run(model, batch)["y"]
    converted, _ = half(model, rewritten=[])  # as it is written

    def drift(received: np.ndarray) -> float:
        return float(np.linalg.norm(received - expected) / np.linalg.norm(expected))

    assert drift(run(converted, batch)["y"]) < 1e-2
    assert drift(run_emulated(converted, batch)["y"]) > 0.5


def test_float16_inputs_and_outputs_keep_their_types():
    model = parse("agraph (float[N] x) => (float[N] y, float[N] x) { y = Exp(x) }")
    converted, _ = half(model, fp16_io=True)
    received = run_emulated(converted, {"x": np.linspace(-1, 1, 9, dtype=np.float16)})
    assert {name: value.dtype for name, value in received.items()} == {
        "y": np.float16,
        "x": np.float16,
    }
    np.testing.assert_array_equal(received["y"], np.exp(np.linspace(-1, 1, 9, dtype=np.float16)))


def test_clones_of_one_model_are_emulated_one_after_the_other():
    model = ir.from_proto(emulated_identity())
    prepare(model)
    for _ in range(2):
        received = run(ir.to_proto(emulated(model.clone())), {"x": np.ones(3, np.float32)})["y"]
        np.testing.assert_array_equal(received, np.ones(3))
    assert all(value.dtype == FP16 for value in model.graph.initializers.values())
