"""Rewrites operators so that their sums are held in FP16, and names those that are left.

A rewritten operator gives the same result but for the rounding of partial sums.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from tfmp.converters.onnx.emulation.convolutions import sum_conv, sum_pool
from tfmp.converters.onnx.emulation.facts import Kind
from tfmp.converters.onnx.emulation.fusions import kernel_of
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.emulation.steps import (
    STEPS,
    THREADS,
    Reduction,
    add_up,
)
from tfmp.converters.onnx.emulation.sum_builder import SumBuilder
from tfmp.converters.onnx.graph import (
    NotStaticError,
    operand,
    optional,
    rank_of,
    size_of,
)

# They add up too, and are left with sums in FP32. A transposed convolution has a few of a model's
# products, whose other sums show what FP16 does to them.
UNMODELLED = frozenset("Attention ConvTranspose GRU LpPool LSTM ReduceLogSumExp RNN".split())

# Slices with steps, and axes as operands: what the rewrites are written in.
_OLDEST_OPSET = 13

# Gives a node's new output; None if its sums fit one block, so that nothing has to change.
Build = Callable[[SumBuilder, ir.Node, int], ir.Value | None]


def sum_in_fp16(
    model: ir.Model,
    nodes: Mapping[ir.Node, ir.DataType],
    profile: Profile,
) -> list[str]:
    """Rounds the partial sums inside these nodes to 16 bits, as far as a profile holds them so.

    Args:
        model: a float32 model, which is changed in place. Its subgraphs may hold some of the nodes.
        nodes: the nodes that compute in 16 bits, with their type; their float32 operands hold such
            numbers, and their results are rounded behind them.
        profile: the hardware or runtime.

    Returns:
        Op types of nodes that still add up in FP32 although the profile does not, sorted.
    """
    left = set()
    old = model.opset_imports.get("", 1) < _OLDEST_OPSET
    for index, (node, half) in enumerate(nodes.items()):
        build = _builder(node, profile)
        block = profile.block or 1
        if build is None or old:
            if build is not None or (node.op_type in UNMODELLED and adds_up(node, profile)):
                left.add(node.op_type)
            continue
        try:
            sums = SumBuilder(model, node, block, f"tfmp_sum_{index}", half)
            total = build(sums, node, block)
        except NotStaticError:
            left.add(node.op_type)
            continue
        if total is not None:
            output = node.outputs[0]
            total.shape = output.shape
            output.replace_all_uses_with(total)
            assert node.graph is not None
            node.graph.remove(node, safe=True)
    return sorted(left)


def adds_up(node: ir.Node, profile: Profile) -> bool:
    """Whether a profile does not hold the sums inside a node in FP32."""
    if node.domain != "":
        return False
    stepwise = profile.ops(Kind.STEPS) | profile.ops(Kind.THREADS)
    return profile.adds_in_fp16(node.op_type) or kernel_of(node) in stepwise


def _builder(node: ir.Node, profile: Profile) -> Build | None:
    if not adds_up(node, profile):
        return None
    kernel = kernel_of(node)
    if kernel in profile.ops(Kind.STEPS):
        return STEPS[kernel]
    return THREADS[kernel] if kernel in profile.ops(Kind.THREADS) else _BUILDERS.get(node.op_type)


def _matmul(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    a, b = operand(node, 0), operand(node, 1)
    ranks = rank_of(a), rank_of(b)
    if min(ranks) < 2:
        raise NotStaticError
    depth = size_of(a, -1) or size_of(b, -2)
    if depth is not None and depth <= block:
        return None
    return build.product(a, b, ranks, depth)


def _gemm(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    a, b = operand(node, 0), operand(node, 1)
    flips = [bool(node.attributes.get_int(name, 0)) for name in ("transA", "transB")]
    depth = size_of(a, 0 if flips[0] else 1) or size_of(b, 1 if flips[1] else 0)
    if depth is not None and depth <= block:
        return None
    a, b = (build.transpose(v, [1, 0]) if f else v for v, f in zip((a, b), flips, strict=True))
    total = build.product(a, b, (2, 2), depth)
    total = _scaled(build, total, node.attributes.get_float("alpha", 1.0))
    addend = optional(node, 2)
    if addend is None:
        return total
    return build.op("Add", total, _scaled(build, addend, node.attributes.get_float("beta", 1.0)))


def _scaled(build: SumBuilder, value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1 else build.op("Mul", value, build.floats(factor))


def _einsum(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """An Einsum of two operands; the axes that it sums over become the last of both."""
    inputs, arrow, result = (
        node.attributes.get_string("equation", "").replace(" ", "").partition("->")
    )
    labels = inputs.split(",")
    inner = [label for label in labels[0] if label not in result]
    plain = arrow and len(labels) == 2 and "." not in inputs
    if not plain or any(len(set(one)) < len(one) for one in labels):
        raise NotStaticError
    if set(inner) != set(labels[1]) - set(result):
        raise NotStaticError
    depth = _terms(operand(node, 0), [labels[0].index(label) for label in inner])
    if depth is not None and depth <= block:
        return None
    values, letters = [], []
    for index, own in enumerate(labels):
        kept = "".join(label for label in own if label in result)
        order = [own.index(label) for label in (*kept, *inner)]
        moved = build.transpose(operand(node, index), order)
        values.append(build.reshape(moved, [0] * len(kept) + [-1]))
        letters.append(kept + inner[0])
    ranks = len(letters[0]), len(letters[1])
    a, b = values
    return build.product(a, b, ranks, depth, equation=f"{','.join(letters)}->{result}")


def _reduce(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    reduced = Reduction(build, node)
    if reduced.depth is not None and reduced.depth <= block:
        return None
    rank = len(reduced.kept) + 1
    return reduced.summed(lambda terms: build.sum_last(terms, rank, reduced.depth), rounds=False)


def _terms(value: ir.Value, axes: Sequence[int]) -> int | None:
    """How many terms a sum over these axes has, if it is known before the run."""
    sizes = [size_of(value, axis) for axis in axes]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


_BUILDERS: dict[str, Build] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "AveragePool": sum_pool,
    "CumSum": add_up,
    "Conv": sum_conv,
    "Einsum": _einsum,
    **dict.fromkeys(
        """GlobalAveragePool ReduceL1 ReduceL2 ReduceLogSum ReduceMean ReduceSum
        ReduceSumSquare""".split(),
        _reduce,
    ),
}
