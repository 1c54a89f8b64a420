"""What must hold between runs of the emulator, whatever the right numbers are."""

import numpy as np
import onnx
import pytest
from onnx_graphs import half, parse, run_emulated

from tfmp.converters.shared.tensors import Batch

RNG = np.random.default_rng(0)
DEPTH = 48
PROFILES = ("gpu", "pessimistic:4", "ort-cuda", "tensorrt", "litert-gpu:4", "webgpu:4")

PRODUCT = f"agraph (float[N, {DEPTH}] x) => (float[N, 6] y) {{ y = MatMul(x, w) }}"
NETWORK = f"""agraph (float[N, {DEPTH}] x) => (float[N, 6] y) {{
    h = MatMul(x, v)
    r = Relu(h)
    y = MatMul(r, w)
}}"""
OPS = {
    "MatMul": PRODUCT,
    "Gemm": f"agraph (float[N, {DEPTH}] x) => (float[N, 6] y) {{ y = Gemm(x, w) }}",
    "Einsum": f"""agraph (float[N, {DEPTH}] x) => (float[N, 6] y) {{
        y = Einsum <equation = "nk,km->nm"> (x, w)
    }}""",
    **{
        op: f"""agraph (float[N, {DEPTH}] x) => (float[N, 1] y) <int64[1] a = {{1}}> {{
            y = {op}(x, a)
        }}"""
        for op in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    },
    "Softmax": f"agraph (float[N, {DEPTH}] x) => (float[N, {DEPTH}] y) {{ y = Softmax(x) }}",
    "LayerNormalization": f"""agraph (float[N, {DEPTH}] x) => (float[N, {DEPTH}] y) {{
        y = LayerNormalization(x, g)
    }}""",
    "LSTM": """agraph (float[T, N, 8] x) => (float[1, N, 4] y) {
        a, y = LSTM <hidden_size = 4> (x, w4, r4)
    }""",
    "Conv": """agraph (float[N, 8, 5, 5] x) => (float[N, 4, 3, 3] y) { y = Conv(x, k) }""",
}
ARRAYS = {
    "w": RNG.standard_normal((DEPTH, 6)),
    "v": RNG.standard_normal((DEPTH, DEPTH)) / 7,
    "g": np.ones(DEPTH),
    "k": RNG.standard_normal((4, 8, 3, 3)) / 8,
    "w4": RNG.standard_normal((1, 16, 8)) / 3,
    "r4": RNG.standard_normal((1, 16, 4)) / 2,
}


def model(text: str, **changed: np.ndarray) -> onnx.ModelProto:
    """The graph in FP16 with the arrays that it reads."""
    arrays = {
        name: array.astype(np.float32)
        for name, array in (ARRAYS | changed).items()
        if any(f"{before}{name}{after}" in text for before in ", " for after in ",)")
    }
    return half(parse(text, **arrays), rewritten=[])[0]


def emulate(text: str, profile: str, batch: Batch, **changed: np.ndarray) -> np.ndarray:
    return run_emulated(model(text, **changed), batch, profile)["y"]


def inputs(op: str, samples: int = 7) -> Batch:
    shape = {"LSTM": (9, samples, 8), "Conv": (samples, 8, 5, 5)}.get(op, (samples, DEPTH))
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_power_of_two_passes_through_exactly(profile: str):
    """No number of this network is subnormal or overflows on either side."""
    batch, factor = {"x": inputs("MatMul")["x"].round(1) + 4}, 2.0**-3
    weights = {name: np.abs(ARRAYS[name]) + 0.5 for name in "vw"}
    plain = emulate(NETWORK, profile, batch, **weights)
    scaled = emulate(NETWORK, profile, {"x": batch["x"] * np.float32(factor)}, **weights)
    assert np.isfinite(plain).all()
    np.testing.assert_array_equal(scaled, plain * factor)
    folded = emulate(NETWORK, profile, batch, v=weights["v"] * factor, w=weights["w"] / factor)
    np.testing.assert_array_equal(folded, plain)


@pytest.mark.parametrize("op", OPS)
def test_one_block_for_all_terms_is_the_profile_gpu(op: str):
    expected = emulate(OPS[op], "gpu", inputs(op))
    for block in (72, 1000):  # the deepest sum here has 72 terms, those of Conv
        np.testing.assert_array_equal(
            emulate(OPS[op], f"pessimistic:{block}", inputs(op)), expected
        )
    if op != "LSTM":  # whose gates are too small for a difference
        assert (emulate(OPS[op], "pessimistic:4", inputs(op)) != expected).any()


@pytest.mark.parametrize("profile", ["pessimistic:4", "webgpu:4"])
@pytest.mark.parametrize("op", OPS)
def test_samples_do_not_know_of_each_other(op: str, profile: str):
    axis = 1 if op == "LSTM" else 0
    whole = inputs(op, 3)["x"]
    together = emulate(OPS[op], profile, {"x": whole})
    alone = [
        emulate(OPS[op], profile, {"x": np.take(whole, [row], axis)})
        for row in range(whole.shape[axis])
    ]
    received = np.concatenate(alone, axis)
    # FP32 sums may be in another order for another size, which moves a rounding at most.
    np.testing.assert_allclose(received, together, rtol=2**-10, atol=2**-14)
    assert np.mean(received == together) > 0.97


@pytest.mark.parametrize("op", ["MatMul", "ReduceSum", "ReduceMean", "ReduceL2"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_order_of_terms_moves_a_sum_by_no_more_than_the_profile_says(op: str, profile: str):
    batch = {"x": np.abs(inputs(op, 50)["x"])}
    order = np.random.default_rng(2).permutation(DEPTH)
    w = np.abs(ARRAYS["w"])
    straight = emulate(OPS[op], profile, batch, w=w)
    turned = emulate(OPS[op], profile, {"x": batch["x"][:, order]}, w=w[order])
    # All terms are positive: each rounding of a partial sum costs half an ULP, 2**-11, and the two
    # orders may err in opposite directions. In FP32 the result alone is rounded.
    roundings = 1 if profile in ("gpu", "ort-cuda", "tensorrt") else DEPTH / 4 + 2
    moved = np.abs(turned - straight) / straight
    assert moved.max() <= 2 * roundings * 2**-11
    if roundings > 1 and op == "MatMul":
        assert moved.max() > 2**-10
