"""Squares that FP16 cannot hold: fuses normalizations, and takes squares out of lengths.

In FP16 a square is infinite from 256 on and zero below 2e-4, and epsilons vanish. Fused ops square
and add in FP32 inside. Without a fused op, `sqrt(f * sum(d * d) + e)` is the Euclidean length of
`d` with one more element, `sqrt(e / f)`, times `sqrt(f)`: nothing in it is squared in FP16.
"""

import math

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    Pattern,
    is_number,
    private,
    reduction_of,
    static,
    with_constant,
)
from tfmp.converters.onnx.rewrites.fused_norms import fuse
from tfmp.converters.onnx.rewrites.roots import Root, root_of, square_of

# A mean over more elements than this is taken of scaled ones, lest their length overflow: it is
# the square root of this, 64, times the root mean square, which then may reach 1023.
_LONG = 4096


def rewrite_norms(pattern: Pattern) -> None:
    """Fuses normalizations; takes the squares out of other variances, norms and lengths."""
    for node in pattern.nodes("Pow"):
        _plain_root(pattern, node)
    for node in pattern.nodes("Sqrt"):
        root = root_of(pattern, node)
        if root is not None and not fuse(pattern, root):
            _as_length(pattern, root)
    for node in pattern.nodes("ReduceMean", "ReduceSum"):
        _sum_of_squares(pattern, node)
    for node in pattern.nodes("Reciprocal"):
        _divide_instead(pattern, node)


def _plain_root(pattern: Pattern, node: ir.Node) -> None:
    """A sum of squares to the power of 1/2 or -1/2, as in PyTorch's norms, becomes a Sqrt."""
    base, half = node.inputs[0], is_number(node.inputs[1], 0.5, 0)
    if base is None or not (half or is_number(node.inputs[1], -0.5, 0)):
        return
    if root_of(pattern, node) is None:
        return
    result = pattern.add(node, "Sqrt", [base], "root")
    if not half:
        result = pattern.add(node, "Reciprocal", [result], "inverse")
    pattern.replace(node.outputs[0], result, "a power of 1/2 became Sqrt")


def _as_length(pattern: Pattern, root: Root) -> None:
    """The root as a Euclidean length, which is not squared in FP16."""
    node, axes = root.node, root.squares.axes
    value, name = root.value, node.outputs[0].name
    shrink = 1.0
    if root.factor < 1 / _LONG:
        shrink = 2.0 ** -math.floor(-math.log2(root.factor) / 2)
        value = pattern.add(
            node, "Mul", [value, pattern.scalar(shrink, f"{name}_shrink")], "shrunk"
        )
    if root.epsilon:
        padded = _with_element(pattern, root, value, shrink)
        if padded is None:
            return
        value = padded
    result = pattern.reduce(node, "ReduceL2", value, axes, "length", root.squares.keepdims)
    factor = math.sqrt(root.factor) / shrink
    if factor != 1:
        constant = pattern.scalar(factor, f"{name}_factor")
        result = pattern.add(node, "Mul", [result, constant], "root")
    if root.floor:
        floor = pattern.scalar(math.sqrt(root.floor), f"{name}_floor")
        result = pattern.add(node, "Max", [result, floor], "floored")
    pattern.replace(
        node.outputs[0], result, "a root of squares became ReduceL2, which squares in FP32 inside"
    )


def _with_element(pattern: Pattern, root: Root, value: ir.Value, shrink: float) -> ir.Value | None:
    """`value` with one more element along a reduced axis, whose square is the epsilon."""
    assert value.shape is not None
    axis = root.squares.axes[-1]
    others = static(value, root.squares.axes[:-1])
    if others is None:
        return None
    element = shrink * math.sqrt(root.epsilon / root.factor / math.prod(others))
    rank = len(value.shape)
    pads = np.zeros(2 * rank, np.int64)
    pads[rank + axis] = 1
    sizes = list(value.shape)
    size = sizes[axis]
    sizes[axis] = size + 1 if isinstance(size, int) else None
    name = root.node.outputs[0].name
    inputs = [
        value,
        pattern.constant(pads, f"{name}_pads"),
        pattern.scalar(element, f"{name}_epsilon"),
    ]
    return pattern.add(root.node, "Pad", inputs, "padded", ir.Shape(sizes))


def _sum_of_squares(pattern: Pattern, node: ir.Node) -> None:
    """Squares that are added up by one op, scaled before where their mean is wanted."""
    reduced = reduction_of(node)
    square = square_of(pattern, reduced.value) if reduced is not None else None
    if reduced is None or square is None or not private([square[1]], node):
        return
    value, name = square[0], node.outputs[0].name
    if node.op_type == "ReduceMean":
        if not reduced.count:
            return
        scale = pattern.scalar(1 / math.sqrt(reduced.count), f"{name}_scale")
        value = pattern.add(node, "Mul", [value, scale], "scaled")
    result = pattern.reduce(
        node, "ReduceSumSquare", value, reduced.axes, "squares", reduced.keepdims
    )
    pattern.replace(
        node.outputs[0], result, "a sum of squares became ReduceSumSquare, in FP32 inside"
    )


def _divide_instead(pattern: Pattern, node: ir.Node) -> None:
    """Products with 1 / length become divisions: of a small length, 1 / length is infinite."""
    length, output = node.inputs[0], node.outputs[0]
    bound = pattern.reader(output, "Min")
    found = with_constant(bound) if bound is not None else None
    if bound is not None:
        if found is None or found[1] <= 0 or not _is_length(pattern, length):
            return
        output = bound.outputs[0]
    products = pattern.readers(output, "Mul")
    if not products or any(product.inputs[0] is product.inputs[1] for product in products):
        return
    if bound is not None:
        # min(1 / length, c) is 1 / max(length, 1 / c).
        assert found is not None
        assert length is not None
        floor = pattern.scalar(1 / found[1], f"{output.name}_floor")
        length = pattern.add(node, "Max", [length, floor], "floored")
    for product in products:
        other = next(value for value in product.inputs if value is not output)
        result = pattern.add(product, "Div", [other, length], "quotient", product.outputs[0].shape)
        pattern.replace(product.outputs[0], result, "times 1 / x became a division by x")


def _is_length(pattern: Pattern, value: ir.Value | None) -> bool:
    """Whether a value cannot be negative because it is a length or a root."""
    return pattern.made_by(value, "ReduceL2", "ReduceL1", "Sqrt", "Abs") is not None
