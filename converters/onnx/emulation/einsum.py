"""Einsum of two operands as one matrix product whose sums are held in FP16."""

import math

import onnx_ir as ir

from tfmp.converters.onnx.emulation.sum_builder import SumBuilder
from tfmp.converters.onnx.graph import NotStaticError, operand, size_of, text


def sum_einsum(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """An Einsum whose sums are held in FP16; None if one block holds them.

    Raises:
        NotStaticError: it has another number of operands, an ellipsis, a diagonal, a summed axis
            that only one operand has, or sizes that are unknown before the run.
    """
    first, second, result = _labels(node)
    both = [label for label in first if label in second]
    batch = [label for label in both if label in result]
    inner = [label for label in both if label not in result]
    left = [label for label in first if label not in both]
    right = [label for label in second if label not in both]
    a, b = operand(node, 0), operand(node, 1)
    depth = _depth(a, first, inner)
    if depth <= block:
        return None
    a = build.transpose(a, [first.index(label) for label in (*batch, *left, *inner)])
    b = build.transpose(b, [second.index(label) for label in (*batch, *inner, *right)])
    kept, rank = [0] * len(batch), len(batch) + 2
    total = build.product(
        build.reshape(a, [*kept, -1, depth]),
        build.reshape(b, [*kept, depth, -1]),
        (rank, rank),
        depth,
    )
    sizes = [build.sizes(a, 0, len(batch) + len(left))] if batch or left else []
    if right:
        sizes.append(build.sizes(b, len(batch) + len(inner), len(second)))
    made = [*batch, *left, *right]
    whole = build.reshape(total, *sizes) if made else build.reshape(total, [])
    return build.transpose(whole, [made.index(label) for label in result])


def _labels(node: ir.Node) -> tuple[str, str, str]:
    """Labels of both operands and of the result."""
    inputs, arrow, result = text(node, "equation", "").replace(" ", "").partition("->")
    operands = inputs.split(",")
    if not arrow or len(operands) != 2 or "." in inputs:
        raise NotStaticError
    first, second = operands
    alone = set(first) ^ set(second)
    if not alone <= set(result) or any(len(set(part)) < len(part) for part in operands):
        raise NotStaticError
    return first, second, result


def _depth(value: ir.Value, labels: str, inner: list[str]) -> int:
    sizes = [size_of(value, labels.index(label)) for label in inner]
    if None in sizes:
        raise NotStaticError
    return math.prod(size for size in sizes if size is not None)
