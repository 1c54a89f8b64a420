"""Emulated drift against programs that share no code with the emulator, on sound small models.

The profile "gpu" foretells kernels that hold FP32 inside an op and round what they write. NumPy
does that where each op of ONNX's evaluator runs in float32 (`kernel_oracle`); the other oracles
round more inside, which shows as drift of their own.
"""

import numpy as np
import onnx
import pytest
from adversarial import ADVERSARIES, Adversary
from fp16_oracles import (
    jax_oracle,
    kernel_oracle,
    tensorflow_oracle,
    webgpu_oracle,
    webgpu_python,
)
from onnx_graphs import half, parse, run, run_emulated
from quick import quick

from tfmp.converters.shared.tensors import Batch, relative_l2

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


def test_an_oracle_that_keeps_float32_is_told_apart():
    """The bounds would show an emulator, or an oracle, that rounds nothing."""
    adversary = SOUND["clock_sound"]  # twenty additions, each of which rounds

    def exact(_: onnx.ModelProto, batch: Batch) -> Batch:
        rounded = {name: x.astype(np.float16).astype(np.float32) for name, x in batch.items()}
        return run(adversary.make(), rounded)

    with pytest.raises(AssertionError):
        check_ratio(adversary, exact)


def test_loops_of_the_oracle_stack_what_they_collect():
    model = parse("""
    agraph (float[N, 4] x) => (float[3, N, 4] y) <int64 three = {3}, bool go = {1}> {
        last, y = Loop (three, go, x) <
            body = once (int64 i, bool c, float[N, 4] s)
                => (bool d, float[N, 4] n, float[N, 4] out) {
                d = Identity(c)
                n = Add(s, s)
                out = Neg(n)
            }
        >
    }
    """)
    x = np.ones((2, 4), np.float32)
    received = kernel_oracle(half(model)[0], {"x": x})["y"]
    np.testing.assert_array_equal(received, -np.stack([2 * x, 4 * x, 8 * x]))
