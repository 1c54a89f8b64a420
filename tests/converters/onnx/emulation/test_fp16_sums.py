"""Sums held in FP16, against NumPy's float16, on numbers whose sums of a block are exact."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_graphs import half, op_types, parse, run, run_emulated

from tfmp.converters.onnx.emulation.emulate import FP32_INSIDE, emulated
from tfmp.converters.onnx.emulation.profiles import DEFAULT_BLOCK, Profile
from tfmp.converters.onnx.fp16.rewriter import prepare

BLOCKS = (1, 8)


def sixteenths(*shape: int, seed: int = 0) -> np.ndarray:
    """Multiples of 1/16 up to 4: products and sums of a thousand are exact in float32."""
    numbers = np.random.default_rng([seed, *shape]).integers(-64, 65, shape)
    return (numbers / 16).astype(np.float32)


def rounded(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def held_in_fp16(block_sums: Iterable[np.ndarray]) -> np.ndarray:
    """The definition: the total is rounded after every block."""
    total = np.float32(0)
    for block_sum in block_sums:
        total = rounded(total + block_sum)
    return total


def blocks(terms: np.ndarray, block: int) -> Iterable[np.ndarray]:
    """FP32 sums of blocks of the last axis."""
    for start in range(0, terms.shape[-1], block):
        yield terms[..., start : start + block].sum(-1, dtype=np.float32)


def product(a: np.ndarray, b: np.ndarray, block: int) -> np.ndarray:
    return held_in_fp16(
        a[..., start : start + block] @ b[..., start : start + block, :]
        for start in range(0, a.shape[-1], block)
    )


def assert_sums(text: str, batch: dict, expected: Callable[[int], np.ndarray], **weights) -> None:
    """The emulated graph gives `expected(block)` bit for bit, and FP32 sums give something else."""
    converted, _ = half(parse(text, **weights))
    for block in BLOCKS:
        received = run_emulated(converted, batch, f"pessimistic:{block}")["y"]
        np.testing.assert_array_equal(received, expected(block), err_msg=f"blocks of {block}")
    assert not np.array_equal(run_emulated(converted, batch)["y"], expected(1))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5, 100), (100, 7)),
        ((2, 3, 4, 96), (3, 96, 5)),
        ((4, 33), (33, 4)),
    ],
    ids=str,
)
def test_matrix_products(a: tuple, b: tuple):
    x, w = sixteenths(*a), sixteenths(*b)
    given, gives = (",".join(map(str, shape)) for shape in (a, (x @ w).shape))
    assert_sums(
        f"agraph (float[{given}] x) => (float[{gives}] y) {{ y = MatMul(x, w) }}",
        {"x": x},
        lambda block: product(x, w, block),
        w=w,
    )


def test_the_inner_size_may_be_known_only_at_run_time():
    x, w = sixteenths(2, 5, 50), sixteenths(2, 50, 3)
    assert_sums(
        "agraph (float[N, 5, K] x, float[N, K, 3] w) => (float[N, 5, 3] y) { y = MatMul(x, w) }",
        {"x": x, "w": w},
        lambda block: product(x, w, block),
    )


def test_gemm_scales_and_adds_once_the_sum_is_there():
    x, w, c = sixteenths(100, 4), sixteenths(6, 100), sixteenths(6)
    assert_sums(
        "agraph (float[100, 4] x) => (float[4, 6] y)"
        " { y = Gemm <transA = 1, transB = 1, alpha = 0.5, beta = 2.0> (x, w, c) }",
        {"x": x},
        lambda block: rounded(0.5 * product(x.T, w.T, block) + 2 * c),
        w=w,
        c=c,
    )


EINSUMS = {
    "abc,cd->abd": ((2, 3, 60), (60, 5)),
    "aecd,abcd->acbe": ((2, 5, 3, 40), (2, 4, 3, 40)),
    "abc,cbd->ad": ((4, 6, 10), (10, 6, 3)),
    "abc,abc->b": ((40, 6, 10), (40, 6, 10)),
}


@pytest.mark.parametrize("equation", EINSUMS)
def test_einsums(equation: str):
    """Summed in the order of the first operand's axes."""
    x, w = (sixteenths(*shape) for shape in EINSUMS[equation])
    first, second, result = equation.replace("->", ",").split(",")
    inner = [label for label in first if label not in result]
    sizes = [x.shape[first.index(label)] for label in inner]
    given, gives = (",".join(map(str, one.shape)) for one in (x, np.einsum(equation, x, w)))

    def expected(block: int) -> np.ndarray:
        kept = np.arange(np.prod(sizes)).reshape(sizes) // block
        labels = "".join(inner)
        return held_in_fp16(
            np.einsum(f"{first},{second},{labels}->{result}", x, w, (kept == part).astype("f"))
            for part in range(kept.max() + 1)
        )

    assert_sums(
        f"agraph (float[{given}] x) => (float[{gives}] y)"
        f' {{ y = Einsum <equation = "{equation}"> (x, w) }}',
        {"x": x},
        expected,
        w=w,
    )


def masked_weights(weights: np.ndarray, places: list[tuple], block: int) -> Iterable[np.ndarray]:
    """The weights with all but one block of terms at zero; `places` in the order of the sum."""
    for start in range(0, len(places), block):
        kept = np.zeros_like(weights)
        for place in places[start : start + block]:
            kept[place] = weights[place]
        yield kept


CONVOLUTIONS = {
    "3x3": ((2, 12, 7, 6), (5, 12, 3, 3), "pads = [1, 1, 1, 1]"),
    "strided": ((1, 8, 9, 8), (4, 8, 3, 2), "strides = [2, 3], pads = [0, 1, 2, 0]"),
    "dilated": ((1, 6, 9, 9), (3, 6, 3, 3), "dilations = [2, 3], pads = [2, 3, 2, 3]"),
    "groups": ((2, 12, 5, 5), (6, 4, 3, 3), "group = 3, pads = [1, 1, 1, 1]"),
    "pointwise": ((2, 40, 3, 3), (4, 40, 1, 1), "strides = [2, 2]"),
    "same_upper": ((1, 6, 6, 7), (3, 6, 3, 4), 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
    "same_lower": ((1, 6, 6, 7), (3, 6, 3, 4), 'auto_pad = "SAME_LOWER", strides = [2, 2]'),
    "one axis": ((2, 10, 20), (3, 10, 5), "dilations = [2]"),
    "three axes": ((1, 4, 4, 5, 4), (3, 4, 2, 3, 2), ""),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str):
    image, kernel, attributes = CONVOLUTIONS[case]
    x, w, b = sixteenths(*image), sixteenths(*kernel), sixteenths(kernel[0])
    shape = ",".join(map(str, ("N", *image[1:])))
    result = ",".join("abcdef"[: len(image)])
    head = f"agraph (float[{shape}] x) => (float[{result}] y)"
    text = f"{head} {{ y = Conv <{attributes}> (x, w, b) }}".replace("<>", "")
    exact = text.replace(", b)", ")")
    order = [
        (slice(None), channel, *tap)
        for tap in itertools.product(*map(range, kernel[2:]))
        for channel in range(kernel[1])
    ]

    def expected(block: int) -> np.ndarray:
        parts = (
            run(parse(exact, w=part), {"x": x})["y"] for part in masked_weights(w, order, block)
        )
        return rounded(held_in_fp16(parts) + b.reshape(-1, *[1] * (len(kernel) - 2)))

    assert_sums(text, {"x": x}, expected, w=w, b=b)


REDUCTIONS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "ReduceSum": lambda t, block: held_in_fp16(blocks(t, block)),
    "ReduceMean": lambda t, block: rounded(
        held_in_fp16(blocks(t, block)) / np.float32(t.shape[-1])
    ),
    "ReduceL1": lambda t, block: held_in_fp16(blocks(np.abs(t), block)),
    "ReduceSumSquare": lambda t, block: held_in_fp16(blocks(t * t, block)),
    "ReduceL2": lambda t, block: rounded(np.sqrt(held_in_fp16(blocks(t * t, block)))),
}


@pytest.mark.parametrize(("op", "keep"), [*((op, 1) for op in REDUCTIONS), ("ReduceSum", 0)])
def test_reductions(op: str, keep: int):
    x = sixteenths(3, 30, 4, 20)
    terms = x.transpose(0, 2, 1, 3).reshape(3, 4, 600)
    result = "float[N, 1, 4, 1]" if keep else "float[N, 4]"

    def expected(block: int) -> np.ndarray:
        total = REDUCTIONS[op](terms, block)
        return total.reshape(3, 1, 4, 1) if keep else total

    assert_sums(
        f"agraph (float[N, 30, 4, K] x) => ({result} y)"
        f" {{ y = {op} <keepdims = {keep}> (x, axes) }}",
        {"x": x},
        expected,
        axes=np.array([-1, 1]),
    )


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ("strides = [2, 3]", 0),
        ("pads = [2, 2, 2, 2]", 2),
        ("pads = [2, 2, 2, 2], count_include_pad = 1", 2),
        ('auto_pad = "SAME_UPPER"', 2),
        ("dilations = [2, 1]", 0),
    ],
)
def test_average_pools(attributes: str, pads: int):
    x = sixteenths(2, 3, 12, 13) + 90  # sums of small numbers would be exact
    strides = (2, 3) if "strides" in attributes else (1, 1)
    reach = (2, 1) if "dilations" in attributes else (1, 1)

    def windows(array: np.ndarray, **value: float) -> np.ndarray:
        """The terms of each window, in the order of the kernel's positions."""
        filled = np.pad(array, ((0, 0), (0, 0), *2 * ((pads, pads),)), **value)
        size = [4 * d + 1 for d in reach]
        views = np.lib.stride_tricks.sliding_window_view(filled, size, (2, 3))
        taken = views[:, :, :: strides[0], :: strides[1], :: reach[0], :: reach[1]]
        return taken.reshape(*taken.shape[:4], 25)

    counts_pads = "count_include_pad" in attributes
    count = windows(np.ones_like(x), constant_values=float(counts_pads)).sum(-1)
    terms = windows(x)

    def expected(block: int) -> np.ndarray:
        return rounded(held_in_fp16(blocks(terms, block)) / np.float32(count))

    assert_sums(
        "agraph (float[N, 3, 12, 13] x) => (float[N, 3, a, b] y)"
        f" {{ y = AveragePool <kernel_shape = [5, 5], {attributes}> (x) }}",
        {"x": x},
        expected,
        opset=19,
    )


def wide(model: onnx.ModelProto, profile: str) -> tuple[onnx.ModelProto, str]:
    """The emulated model, and the op types whose sums it leaves."""
    copy = ir.from_proto(model)
    prepare(copy)
    result = emulated(copy, Profile.parse(profile))
    return ir.to_proto(result), result.metadata_props[FP32_INSIDE]


def test_sums_of_one_block_change_nothing():
    x, w = sixteenths(5, 16), sixteenths(16, 7)
    converted, _ = half(
        parse("agraph (float[N, 16] x) => (float[N, 7] y) { y = MatMul(x, w) }", w=w)
    )
    assert "Scan" not in op_types(wide(converted, "pessimistic")[0])
    assert "Scan" in op_types(wide(converted, "pessimistic:15")[0])
    assert run_emulated(converted, {"x": x}, "pessimistic")["y"].shape == (5, 7)


def test_what_is_left_with_fp32_sums_is_named():
    converted, _ = half(
        parse(
            "agraph (float[N, 4, H, 8] x) => (float[N, 4, a, b] y, float[N, 4, c, d] z,"
            " float[N, 4, H, 8] s) { y = AveragePool <kernel_shape = [5, 5], ceil_mode = 1> (x)"
            " z = LpPool <kernel_shape = [5, 5]> (x) s = Softmax(x) }"
        )
    )
    assert wide(converted, "pessimistic")[1] == "AveragePool, LpPool"
    assert wide(converted, "pessimistic:25")[1] == "LpPool"
    assert wide(converted, "webgpu")[1] == "AveragePool"
    assert wide(converted, "gpu")[1] == ""
    assert DEFAULT_BLOCK == 16
