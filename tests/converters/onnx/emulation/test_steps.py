"""Kernels that round every step, against the same steps in NumPy's float16."""

import numpy as np
import pytest
from onnx_graphs import half, parse, run_emulated

F16 = np.float16


def emulate(text: str, profile: str = "ort-cuda", opset: int = 18, **batch: np.ndarray):
    arrays = {name: batch.pop(name) for name in list(batch) if name in "gb"}
    converted, _ = half(parse(text, opset=opset, **arrays), rewritten=[])
    return run_emulated(converted, batch, profile)["y"]


def cumsum(text: str) -> str:
    return f"agraph (float[N, 40] x) => (float[N, 40] y) <int64 a = {{1}}> {{ y = {text} }}"


def added_one_by_one(x: np.ndarray, exclusive: bool = False, reverse: bool = False) -> np.ndarray:
    """Totals in float16 along the last axis."""
    x = x.astype(F16)[..., ::-1] if reverse else x.astype(F16)
    total, found = np.zeros(x.shape[:-1], F16), []
    for term in np.moveaxis(x, -1, 0):
        before, total = total, (total + term).astype(F16)
        found.append(before if exclusive else total)
    result = np.stack(found, -1)
    return (result[..., ::-1] if reverse else result).astype(np.float32)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum_adds_one_term_after_the_other(exclusive: int, reverse: int):
    x = np.random.default_rng(0).uniform(0, 90, (3, 40)).astype(np.float32)
    node = f"CumSum <exclusive = {exclusive}, reverse = {reverse}> (x, a)"
    expected = added_one_by_one(x, bool(exclusive), bool(reverse))
    for profile in ("ort-cuda", "pessimistic:1"):
        np.testing.assert_array_equal(emulate(cumsum(node), profile, x=x), expected)


def test_cumsum_rounds_its_total_after_every_block():
    x = np.random.default_rng(1).uniform(0, 90, (2, 40)).astype(np.float32)
    half_x, total, expected = x.astype(F16).astype(np.float32), np.zeros((2, 1), np.float32), []
    for start in range(0, 40, 16):
        inside = total + np.cumsum(half_x[:, start : start + 16], 1, dtype=np.float32)
        expected.append(inside.astype(F16).astype(np.float32))
        total = expected[-1][:, -1:]
    received = emulate(cumsum("CumSum(x, a)"), "pessimistic:16", x=x)
    np.testing.assert_array_equal(received, np.concatenate(expected, 1))


def reduced(op: str, axes: str, shape: str, opset: int = 18) -> str:
    kept = f"agraph (float[{shape}] x) => (float[?] y) "
    if opset < 18:
        return f"{kept}{{ y = {op} <axes = [{axes}], keepdims = 0> (x) }}"
    return f"{kept}<int64[K] a = {{{axes}}}> {{ y = {op} <keepdims = 0> (x, a) }}".replace(
        "[K]", f"[{axes.count(',') + 1}]"
    )


def reduce(op: str, x: np.ndarray, axes: str = "1", opset: int = 18, profile: str = "ort-cuda"):
    shape = ", ".join(map(str, x.shape))
    kept = [size for axis, size in enumerate(x.shape) if str(axis) not in axes]
    text = reduced(op, axes, shape, opset).replace("?", ", ".join(map(str, kept)))
    return emulate(text, profile, opset=opset, x=x)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_mean_divides_a_sum_that_is_fp16(opset: int):
    x = np.random.default_rng(0).uniform(0, 30, (3, 1000)).astype(np.float32)
    total = x.astype(F16).sum(1, dtype=np.float64).astype(F16)
    expected = (total / F16(1000)).astype(np.float32)
    np.testing.assert_array_equal(reduce("ReduceMean", x, opset=opset), expected)
    assert not np.array_equal(reduce("ReduceMean", x, opset=opset, profile="gpu"), expected)


def test_a_mean_over_more_elements_than_fp16_counts_is_zero_or_nan():
    """As microsoft/onnxconverter-common#323 saw it."""
    x = np.stack([np.full((257, 256), 1.0), np.full((257, 256), 1e-3)]).astype(np.float32)
    received = reduce("ReduceMean", x, "1, 2")
    assert np.isnan(received[0])
    assert received[1] == 0


def test_a_mean_over_axes_in_the_middle_is_left_to_cudnn():
    x = np.full((2, 4096, 3), 100, np.float32)
    assert (reduce("ReduceMean", x, "1") == 100).all()
    assert (reduce("ReduceMean", x, "0, 1") == np.inf).all()


def test_squares_are_fp16():
    x = np.array([[300, 1], [2e-4, 3]], np.float32)
    assert reduce("ReduceSumSquare", x * [[0.5], [1]], profile="gpu")[0] == 22496
    received = reduce("ReduceSumSquare", x.astype(np.float32))
    assert received[0] == np.inf
    small = np.full((1, 4096), 1.5e-4, np.float32)
    assert reduce("ReduceSumSquare", small, profile="gpu") == pytest.approx(9.2e-5, rel=0.01)
    # Each square is 2.25e-8, which FP16 holds as zero.
    assert reduce("ReduceSumSquare", small) == 0


def test_log_sums_are_fp16():
    x = np.full((1, 2000), 40, np.float32)
    assert reduce("ReduceLogSum", x, profile="gpu") == pytest.approx(np.log(80000), rel=1e-3)
    assert reduce("ReduceLogSum", x) == np.inf
    many = np.zeros((1, 70000), np.float32)
    assert reduce("ReduceLogSumExp", many, profile="gpu") == pytest.approx(np.log(70000), rel=1e-3)
    assert reduce("ReduceLogSumExp", many) == np.inf


SKIP = """
agraph (float[N, 4, 24] x, float[N, 4, 24] s) => (float[N, 4, 24] y) {
    y = Neg(LayerNormalization <axis = -1, epsilon = 1e-5> (Add(x, s), g, b))
}
"""


def skip_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The formula of the kernel in float16, added up by pairs."""

    def by_pairs(terms: np.ndarray) -> np.ndarray:
        terms = np.pad(terms, [(0, 0), (0, 0), (0, 8)])
        while terms.shape[-1] > 1:
            width = terms.shape[-1] // 2
            terms = terms[..., :width] + terms[..., width:]
        return terms

    parts = x * F16(1 / 24)
    mean = by_pairs(parts)
    variance = (by_pairs(parts * x).astype(np.float32) - mean.astype(np.float32) ** 2).astype(F16)
    inverse = (1 / np.sqrt((variance + F16(1e-5)).astype(np.float32))).astype(F16)
    scaled = ((x - mean) * g).astype(np.float32) * inverse
    return (scaled + b).astype(F16)


def normalized(scale: float, offset: float, profile: str = "ort-cuda"):
    rng = np.random.default_rng(0)
    batch = {
        name: (offset / 2 + scale * rng.standard_normal((3, 4, 24))).astype(F16).astype(np.float32)
        for name in "xs"
    }
    g, b = rng.uniform(0.5, 2, 24).astype(F16), rng.standard_normal(24).astype(F16)
    received = emulate(SKIP, profile, g=g.astype(np.float32), b=b.astype(np.float32), **batch)
    with np.errstate(all="ignore"):
        return received, -skip_norm((batch["x"] + batch["s"]).astype(F16), g, b), b


def test_a_residual_sum_and_its_normalization_are_one_kernel():
    received, expected, _ = normalized(1, 0)
    np.testing.assert_array_equal(received, expected)
    plain, _, _ = normalized(1, 0, "ort-cuda:1.27")
    assert not np.array_equal(plain, expected)
    np.testing.assert_allclose(plain, expected, atol=0.02)


def test_squares_of_a_residual_sum_overflow_up_to_version_1_26():
    received, _, b = normalized(250, 0)
    np.testing.assert_array_equal(received, np.broadcast_to(-b, received.shape))
    mended, _, _ = normalized(250, 0, "ort-cuda:1.27")
    assert 0.9 < mended.std() < 2


def by_threads(terms: np.ndarray) -> np.ndarray:
    """The sum of float16 terms (rows, n): 64 threads add every 64th, then halves are added."""
    short = -terms.shape[1] % 64
    lanes = np.pad(terms, ((0, 0), (0, short))).reshape(len(terms), -1, 64)
    total = np.zeros((len(terms), 64), F16)
    for part in np.moveaxis(lanes, 1, 0):
        total = (total + part).astype(F16)
    while total.shape[1] > 1:
        middle = total.shape[1] // 2
        total = (total[:, :middle] + total[:, middle:]).astype(F16)
    return total[:, 0]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("size", [7, 64, 300])
@pytest.mark.parametrize(
    ("op", "each", "last"),
    [
        ("ReduceSum", lambda x: x, lambda total, n: total),
        ("ReduceMean", lambda x: x, lambda total, n: total / F16(n)),
        ("ReduceL1", np.abs, lambda total, n: total),
        ("ReduceL2", np.square, lambda total, n: np.sqrt(total)),
        ("ReduceSumSquare", np.square, lambda total, n: total),
        ("ReduceLogSumExp", np.exp, lambda total, n: np.log(total)),
    ],
)
def test_threads_of_a_web_gpu_share_a_reduction_in_fp16(op: str, each, last, size: int):
    x = np.random.default_rng(0).standard_normal((5, size)).astype(F16)
    expected = last(by_threads(each(x)), size).astype(np.float32)
    received = reduce(op, x.astype(np.float32), profile="webgpu")
    np.testing.assert_allclose(received, expected, rtol=2e-3)
    same = np.mean(received == expected)
    assert same > 0.5, same


def test_squares_overflow_on_a_web_gpu_and_nowhere_else():
    x = np.full((2, 100), 300, np.float32)
    for profile, length in (("gpu", 3000), ("ort-cuda", 3000), ("webgpu", np.inf)):
        assert (reduce("ReduceL2", x, profile=profile) == length).all(), profile


def test_softmax_on_a_web_gpu_rounds_exponentials_and_their_sum():
    text = "agraph (float[N, 300] x) => (float[N, 300] y) { y = Softmax(x) }"
    x = np.random.default_rng(0).standard_normal((4, 300)).astype(F16)
    powers = np.exp(x - x.max(1, keepdims=True))
    expected = (powers / by_threads(powers)[:, None]).astype(np.float32)
    received = emulate(text, "webgpu", x=x.astype(np.float32))
    np.testing.assert_array_equal(received, np.where(expected < 2**-14, 0, expected))
    assert (emulate(text, "gpu", x=x.astype(np.float32)) != received).any()


def test_softplus_of_webgpu_is_zero_where_an_exponential_adds_nothing_to_one():
    text = "agraph (float[N, 3] x) => (float[N, 3] y) { y = Softplus(x) }"
    x = np.array([[-9, -2, 5]], np.float32)
    received = {name: emulate(text, name, x=x) for name in ("gpu", "webgpu")}
    np.testing.assert_allclose(received["gpu"], np.log1p(np.exp(x)), rtol=1e-3)
    np.testing.assert_allclose(received["webgpu"], [[0, 0.1269, 5.0067]], rtol=5e-3)


def test_recurrent_ops_of_webgpu_run_on_the_cpu_in_fp32():
    x = np.random.default_rng(0).standard_normal((30, 2, 3), dtype=np.float32)
    rng = np.random.default_rng(1)
    g, b = (rng.standard_normal((1, 16, k)).astype(np.float32) for k in (3, 4))
    text = """agraph (float[30, N, 3] x) => (float[30, 1, N, 4] y) {
        y = LSTM <hidden_size = 4> (x, g, b)
    }"""
    once = emulate(text, "webgpu", x=x, g=g, b=b)
    stepwise = emulate(text, "gpu", x=x, g=g, b=b)
    assert not np.array_equal(once, stepwise)
