"""Ops whose kernels round every step to FP16, rewritten as these steps.

The last step is left unrounded: whoever replaces the op rounds its result. `facts` names the
runtimes and the sources of the kernels.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.emulation.sum_builder import SumBuilder
from tfmp.converters.onnx.graph import (
    FP32,
    NotStaticError,
    array_of,
    operand,
    optional,
    rank_of,
    reduction_of,
    size_of,
    static,
)


def add_up(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """CumSum whose running total is rounded after every block of terms.

    Raises:
        NotStaticError: the axis or the rank is unknown before the run.
    """
    x, given = operand(node, 0), array_of(operand(node, 1))
    if given is None:
        raise NotStaticError
    rank = rank_of(x)
    axis = int(given.reshape(())) % rank
    order = [*(other for other in range(rank) if other != axis), axis]
    back = [order.index(other) for other in range(rank)]
    last, depth = build.integers([rank - 1]), size_of(x, axis)
    terms = build.transpose(x, order)
    if node.attributes.get_int("reverse", 0):
        terms = _turned(build, terms, last)
    count = build.sizes(terms, rank - 1, rank)
    if node.attributes.get_int("exclusive", 0):
        pads = [0] * 2 * rank
        pads[rank - 1] = 1
        terms = build.op("Pad", terms, build.integers(pads))
        depth = None if depth is None else depth + 1
    totals = _running(build, build.blocks(terms, rank, rank - 1, depth))
    moved = build.transpose(totals, [*range(1, rank), 0, rank])
    flat = build.reshape(moved, [0] * (rank - 1) + [-1])
    result = build.op("Slice", flat, build.integers([0]), count, last)
    if node.attributes.get_int("reverse", 0):
        result = _turned(build, result, last)
    return build.transpose(result, back)


def _turned(build: SumBuilder, value: ir.Value, axis: ir.Value) -> ir.Value:
    """`value` from its end to its beginning."""
    ends = build.integers([-1]), build.integers([np.iinfo(np.int64).min])
    return build.op("Slice", value, *ends, axis, build.integers([-1]))


def _running(build: SumBuilder, blocks: ir.Value) -> ir.Value:
    """The running totals in each block, which begin with the rounded total of those before."""
    total, terms = build.value("total", FP32), build.value("block", FP32)
    last = build.integers([-1])
    summed = build.node("CumSum", [terms, build.integers(-1)], [FP32], {})
    added = build.node("Add", [summed.outputs[0], total], [FP32], {})
    ends = build.node("Gather", [added.outputs[0], last], [FP32], {"axis": -1})
    casts = build.casts(ends.outputs[0])
    body = ir.Graph(
        [total, terms],
        [casts[-1].outputs[0], added.outputs[0]],
        nodes=[summed, added, ends, *casts],
        name=build.name("body"),
    )
    start = build.zeros_like(build.op("Gather", build.first(blocks), last, axis=-1))
    return build.outputs("Scan", [start, blocks], 2, body=body, num_scan_inputs=1)[1]


class Reduction:
    """A reduction whose operand has the reduced axes flattened at its end.

    Attributes:
        axes: the axes that it reduces.
        kept: the others.
        depth: number of terms of a sum, if it is known before the run.
    """

    def __init__(self, build: SumBuilder, node: ir.Node) -> None:
        """Raises `NotStaticError` where no axis is reduced, or it is unknown which."""
        self._build, self._node, self._x = build, node, operand(node, 0)
        axes: Sequence[int] = ()
        if node.op_type == "GlobalAveragePool":
            axes = range(2, rank_of(self._x))
        elif (found := reduction_of(node)) is not None:
            axes = found.axes
        if not axes:
            raise NotStaticError
        self.axes = list(axes)
        self.kept = [axis for axis in range(rank_of(self._x)) if axis not in axes]
        sizes = static(self._x, axes)
        self.depth = None if sizes is None else math.prod(sizes)

    @cached_property
    def terms(self) -> ir.Value:
        """The operand, with the terms of each sum along its last axis."""
        moved = self._build.transpose(self._x, [*self.kept, *self.axes])
        return self._build.reshape(moved, [0] * len(self.kept) + [-1])

    def summed(
        self, add: Callable[[ir.Value], ir.Value], rounds: bool = True, shifts: bool = False
    ) -> ir.Value:
        """The result of the node.

        Args:
            add: gives the sums over the last axis of terms; the axis stays, with size 1.
            rounds: whether each step is rounded, and not sums alone.
            shifts: whether exponentials are of the terms less the largest one.
        """
        build, op_type, terms = self._build, self._node.op_type, self.terms
        step = build.rounded if rounds else lambda value: value
        largest = None
        if op_type == "ReduceL1":
            terms = build.op("Abs", terms)
        elif op_type in ("ReduceL2", "ReduceSumSquare"):
            terms = step(build.op("Mul", terms, terms))
        elif op_type == "ReduceLogSumExp":
            largest = build.peak(terms, len(self.kept)) if shifts else None
            terms = terms if largest is None else step(build.op("Sub", terms, largest))
            terms = step(build.op("Exp", terms))
        total = add(terms)
        if op_type in ("ReduceMean", "GlobalAveragePool"):
            total = build.op("Div", total, step(self._count()))
        elif op_type == "ReduceL2":
            total = build.op("Sqrt", total)
        elif op_type in ("ReduceLogSum", "ReduceLogSumExp"):
            total = build.op("Log", total)
        return self._result(total if largest is None else build.op("Add", step(total), largest))

    def _count(self) -> ir.Value:
        """The number of terms, as a float."""
        if self.depth is not None:
            return self._build.floats(self.depth)
        rank = len(self.kept)
        return self._build.op("Cast", self._build.sizes(self.terms, rank, rank + 1), to=FP32.value)

    def _result(self, value: ir.Value) -> ir.Value:
        """A value with one element at the end, in the shape of the node's result."""
        flat = self._build.op("Squeeze", value, self._build.integers([len(self.kept)]))
        if self._node.attributes.get_int("keepdims", 1):
            return self._build.op("Unsqueeze", flat, self._build.integers(self.axes))
        return flat


def _cuda_reduction(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """Sums are FP32, and then rounded. A mean over axes in the middle is cuDNN's."""
    reduced = Reduction(build, node)
    if node.op_type == "ReduceMean" and not _is_matrix(reduced.kept, reduced.axes):
        return None
    last = build.integers([-1])
    return reduced.summed(
        lambda terms: build.rounded(build.op("ReduceSum", terms, last, keepdims=1)), shifts=True
    )


def _is_matrix(kept: Sequence[int], axes: Sequence[int]) -> bool:
    return not kept or max(axes) < min(kept) or min(axes) > max(kept)


def _skip_layer_norm(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """The normalization behind a sum: E[x²] - E[x]², summed by pairs, as threads do."""
    x, scale = operand(node, 0), operand(node, 1)
    rank = rank_of(x)
    size = size_of(x, rank - 1)
    if node.attributes.get_int("axis", -1) % rank != rank - 1 or size is None:
        raise NotStaticError
    share = build.floats(np.float16(1 / size).astype(np.float32))
    parts = build.rounded(build.op("Mul", x, share))
    mean = _by_pairs(build, parts, rank, size)
    squares = _by_pairs(build, build.rounded(build.op("Mul", parts, x)), rank, size)
    variance = build.rounded(build.op("Sub", squares, build.op("Mul", mean, mean)))
    epsilon = np.float16(node.attributes.get_float("epsilon", 1e-5)).astype(np.float32)
    safe = build.rounded(build.op("Add", variance, build.floats(epsilon)))
    inverse = build.rounded(build.op("Reciprocal", build.op("Sqrt", safe)))
    centred = build.rounded(build.op("Sub", x, mean))
    result = build.op("Mul", build.rounded(build.op("Mul", centred, scale)), inverse)
    bias = optional(node, 2)
    return result if bias is None else build.op("Add", result, bias)


def _by_pairs(build: SumBuilder, terms: ir.Value, rank: int, size: int) -> ir.Value:
    """The sum over the last axis: both halves are added and rounded, until one number is left."""
    axis = build.integers([rank - 1])
    width = 1 << (size - 1).bit_length()
    if width > size:
        pads = [0] * 2 * rank
        pads[-1] = width - size
        terms = build.op("Pad", terms, build.integers(pads))
    while width > 1:
        width //= 2
        first = build.op("Slice", terms, build.integers([0]), build.integers([width]), axis)
        second = build.op(
            "Slice", terms, build.integers([width]), build.integers([2 * width]), axis
        )
        terms = build.rounded(build.op("Add", first, second))
    return terms


# Threads of a workgroup of ONNX Runtime's WebGPU provider: WORKGROUP_SIZE in
# core/providers/webgpu/program.h. One result alone is shared by 256.
_WORKGROUP = 64


def _by_threads(build: SumBuilder, terms: ir.Value, rank: int, depth: int | None) -> ir.Value:
    """The sum over the last axis: each thread adds and rounds its terms, then pairs are added."""
    lanes = build.sum_lanes(terms, rank, depth, _WORKGROUP)
    return _by_pairs(build, lanes, rank, _WORKGROUP)


def _shared_reduction(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    reduced = Reduction(build, node)
    rank = len(reduced.kept) + 1
    return reduced.summed(lambda terms: _by_threads(build, terms, rank, reduced.depth))


def _shared_softmax(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    x = operand(node, 0)
    rank = rank_of(x)
    axis = node.attributes.get_int("axis", -1) % rank
    order = [*(other for other in range(rank) if other != axis), axis]
    moved = build.transpose(x, order)
    shifted = build.rounded(build.op("Sub", moved, build.peak(moved, rank - 1)))
    powers = build.rounded(build.op("Exp", shifted))
    total = _by_threads(build, powers, rank, size_of(x, axis))
    result = build.op("Div", powers, total)
    return build.transpose(result, [order.index(other) for other in range(rank)])


def _log_of(build: SumBuilder, x: ir.Value) -> ir.Value:
    """From a rounded logarithm to the base 2, as the specification lets it be.

    W3C, WebGPU Shading Language, "Accuracy of Floating Point Expressions"; compilers write it so
    (Mesa, src/compiler/nir/nir_builtin_builder.h).
    """
    bits = build.rounded(build.op("Mul", build.op("Log", x), build.floats(1 / math.log(2))))
    return build.op("Mul", bits, build.floats(np.float16(math.log(2)).astype(np.float32)))


def _web_layer_norm(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """Sums, mean and variance are float32; then 1 / deviation is FP16, and so is each product."""
    x, scale = operand(node, 0), operand(node, 1)
    rank = rank_of(x)
    if node.attributes.get_int("axis", -1) % rank != rank - 1 or any(node.outputs[1:]):
        raise NotStaticError
    mean, square = (build.mean(value, [-1]) for value in (x, build.op("Mul", x, x)))
    variance = build.op("Sub", square, build.op("Mul", mean, mean))
    safe = build.op("Add", variance, build.floats(node.attributes.get_float("epsilon", 1e-5)))
    inverse = build.rounded(build.op("Reciprocal", build.op("Sqrt", safe)))
    centred = build.rounded(build.op("Sub", x, build.rounded(mean)))
    result = build.op("Mul", build.rounded(build.op("Mul", centred, inverse)), scale)
    bias = optional(node, 2)
    return result if bias is None else build.op("Add", build.rounded(result), bias)


def _softplus(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    x = operand(node, 0)
    powers = build.rounded(build.op("Exp", build.op("Neg", build.op("Abs", x))))
    total = build.rounded(build.op("Add", powers, build.floats(1)))
    return build.op("Add", build.rounded(_log_of(build, total)), build.op("Relu", x))


# By the op that the kernel belongs to; None as a result where the kernel adds in FP32 after all.
STEPS: dict[str, Callable[[SumBuilder, ir.Node, int], ir.Value | None]] = {
    "CumSum": lambda build, node, block: add_up(build, node, 1),
    "LayerNormalization": _web_layer_norm,
    "Log": lambda build, node, block: _log_of(build, operand(node, 0)),
    **dict.fromkeys(
        ("ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSumSquare"), _cuda_reduction
    ),
    "SkipLayerNormalization": _skip_layer_norm,
    "Softplus": _softplus,
}

# Kernels whose threads share a sum, by op.
THREADS: dict[str, Callable[[SumBuilder, ir.Node, int], ir.Value | None]] = {
    **dict.fromkeys(
        """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceSum
        ReduceSumSquare""".split(),
        _shared_reduction,
    ),
    "Softmax": _shared_softmax,
}
