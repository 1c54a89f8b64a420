"""The emulator rounds as FP16 does, and only where a kernel would: by itself and beside oracles."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from adversarial import ADVERSARIES, Adversary
from fp16_oracles import (
    jax_oracle,
    kernel_oracle,
    tensorflow_oracle,
    webgpu_oracle,
    webgpu_python,
)
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from onnx_graphs import half, parse, run, run_emulated
from quick import quick

from tfmp.converters.shared.tensors import relative_l2

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


# As in benchmarks/emulator_truth.py.
BOUNDS = (0.6, 1.5)
# A smaller drift is the rounding of float32 itself.
LEAST = 1e-5

SOUND = {adversary.name: adversary for adversary in ADVERSARIES if not adversary.harm}
# A product, a softmax, a recurrent op, a normalization.
FEW = ("dense_sound", "large_logits_sound", "counting_lstm_sound", "residual_sound")


def drifts(adversary: Adversary, oracle, profile: str) -> tuple[float, float]:
    """Drift emulated, and drift of an oracle, from the same FP16 file."""
    model, batch = adversary.make(), adversary.batch(64)
    converted, _ = half(model)
    expected = run(model, batch)["y"]
    emulated = run_emulated(converted, batch, profile)["y"]
    return tuple(relative_l2(expected, y) for y in (emulated, oracle(converted, batch)["y"]))


def check_ratio(
    adversary: Adversary, oracle, bounds: tuple[float, float] = BOUNDS, profile: str = "gpu"
) -> None:
    emulated, truth = drifts(adversary, oracle, profile)
    if max(emulated, truth) > LEAST:
        assert bounds[0] <= emulated / truth <= bounds[1], (emulated, truth)


@pytest.mark.parametrize("name", quick(SOUND, *FEW))
def test_emulated_drift_is_the_matching_oracles(name: str):
    check_ratio(SOUND[name], kernel_oracle)


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("oracle", [tensorflow_oracle, jax_oracle])
def test_frameworks_round_more_inside_and_never_less(name: str, oracle):
    check_ratio(SOUND[name], oracle, (0.4, 1.1))


@pytest.mark.skipif(
    webgpu_python() is None, reason="TFMP_WEBGPU names no Python that has ONNX Runtime's WebGPU"
)
@pytest.mark.parametrize("name", quick(SOUND, *FEW))
def test_webgpus_own_kernels_drift_as_its_profile_foretells(name: str):
    check_ratio(SOUND[name], webgpu_oracle, profile="webgpu")
