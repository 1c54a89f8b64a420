"""Squares that FP16 cannot hold: normalizations fused, variances and lengths without squares.

In FP16 a square is infinite from 256 on and zero below 2e-4, and epsilons vanish. Fused ops square
and add in FP32 inside. Where ONNX has none, `sqrt(f * sum(d * d) + e)` is the Euclidean length of
`d` with one more element, `sqrt(e / f)`, times `sqrt(f)`: nothing in it is squared in FP16.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.matching import (
    Pattern,
    Reduction,
    array_of,
    is_number,
    number_of,
    private,
    reduction_of,
    static,
    with_constant,
)
from tfmp.numerics import FLOAT16

_LAYER_NORM_OPSET = 17
_RMS_NORM_OPSET = 23

# A mean over more elements than this is taken of scaled ones, lest their length overflow: it is
# the square root of this, 64, times the root mean square, which then may reach 1023.
_LONG = 4096


def rewrite_norms(pattern: Pattern) -> None:
    """Fuses normalizations; takes the squares out of other variances, norms and lengths."""
    for node in pattern.nodes("Div", "Mul"):
        _average(pattern, node)
    for node in pattern.nodes("Sqrt"):
        root = _root(pattern, node)
        if root is not None and not _fuse(pattern, root):
            _as_length(pattern, root)
    for node in pattern.nodes("ReduceMean", "ReduceSum"):
        _sum_of_squares(pattern, node)
    for node in pattern.nodes("Reciprocal"):
        _divide_instead(pattern, node)
    for node in pattern.nodes("Max", "Clip"):
        _visible_floor(pattern, node)


def _average(pattern: Pattern, node: ir.Node) -> None:
    """A sum divided by the number of its elements becomes a mean, which overflows later."""
    found = with_constant(node)
    total = pattern.made_by(found[0], "ReduceSum") if found else None
    reduced = reduction_of(total) if total is not None else None
    if found is None or total is None or reduced is None or not private([total], node):
        return
    factor = found[1] if node.op_type == "Mul" else 1 / found[1] if found[1] else 0.0
    if reduced.count and math.isclose(factor * reduced.count, 1, rel_tol=1e-6):
        mean = pattern.reduce(
            node, "ReduceMean", reduced.value, reduced.axes, "mean", reduced.keepdims
        )
        pattern.replace(node.outputs[0], mean, "a sum over its count became ReduceMean")


@dataclass(frozen=True)
class _Root:
    """sqrt(factor * sum(value ** 2) + epsilon), or with max in the place of +.

    Attributes:
        node: the Sqrt.
        inner: the other nodes, down to the one that squares.
        squares: the reduction, of the squares.
        value: what is squared.
        factor: of the sum.
        epsilon: added.
        floor: at least this much.
    """

    node: ir.Node
    inner: tuple[ir.Node, ...]
    squares: Reduction
    value: ir.Value
    factor: float
    epsilon: float
    floor: float

    def is_mean(self) -> bool:
        """Whether it is the root of a mean and an epsilon, as normalizations take it."""
        count = self.squares.count
        exact = count is not None and math.isclose(self.factor * count, 1, rel_tol=1e-6)
        return exact and self.squares.keepdims and not self.floor


def _root(pattern: Pattern, node: ir.Node) -> _Root | None:
    inner: list[ir.Node] = []
    factor, epsilon, floor = 1.0, 0.0, 0.0
    value = node.inputs[0]
    bound = pattern.made_by(value, "Add", "Max", "Clip")
    if bound is not None:
        found = _lower_bound(bound)
        if found is None or not 0 < found[1] < math.inf:
            return None
        inner.append(bound)
        value, number = found
        epsilon, floor = (number, 0.0) if bound.op_type == "Add" else (0.0, number)
    while (scale := pattern.made_by(value, "Mul", "Div")) is not None:
        found = with_constant(scale)
        if found is None or not 0 < found[1] < math.inf:
            return None
        inner.append(scale)
        value = found[0]
        factor *= found[1] if scale.op_type == "Mul" else 1 / found[1]
    total = pattern.made_by(value, "ReduceMean", "ReduceSum")
    reduced = reduction_of(total) if total is not None else None
    if total is None or reduced is None:
        return None
    square = _square(pattern, reduced.value)
    if square is None:
        return None
    if total.op_type == "ReduceMean":
        if not reduced.count:
            return None
        factor /= reduced.count
    base, squaring = square
    inner += [total, squaring]
    if not private(inner, node):
        return None
    return _Root(node, tuple(inner), reduced, base, factor, epsilon, floor)


def _lower_bound(node: ir.Node) -> tuple[ir.Value, float] | None:
    """What Add, Max or Clip puts below a value."""
    if node.op_type != "Clip":
        return with_constant(node)
    value, *bounds = node.inputs
    number = number_of(bounds[0]) if bounds else None
    unbounded = len(bounds) < 2 or bounds[1] is None or is_number(bounds[1], float(_FLT_MAX))
    return (value, number) if value is not None and number is not None and unbounded else None


_FLT_MAX = np.finfo(np.float32).max


def _square(pattern: Pattern, value: ir.Value | None) -> tuple[ir.Value, ir.Node] | None:
    """What is squared, and the node that does it."""
    node = pattern.made_by(value, "Mul", "Pow")
    if node is None or node.inputs[0] is None:
        return None
    same = node.op_type == "Mul" and node.inputs[0] is node.inputs[1]
    squared = same or (node.op_type == "Pow" and is_number(node.inputs[1], 2, 0))
    return (node.inputs[0], node) if squared else None


def _centre(pattern: Pattern, root: _Root) -> tuple[ir.Value, ir.Value] | None:
    """(x, mean) where the root is of x - mean(x), over the same axes."""
    node = pattern.made_by(root.value, "Sub")
    if node is None or node.inputs[0] is None or node.inputs[1] is None:
        return None
    value, mean = node.inputs
    averaged = pattern.made_by(mean, "ReduceMean")
    reduced = reduction_of(averaged) if averaged is not None else None
    if reduced is None or reduced.value is not value or not reduced.keepdims:
        return None
    assert value is not None
    assert mean is not None
    return (value, mean) if reduced.axes == root.squares.axes else None


@dataclass(frozen=True)
class _Normal:
    """A normalization as it is written: its last node, the nodes inside, scale and bias."""

    last: ir.Node
    inner: tuple[ir.Node, ...]
    scale: np.ndarray | None = None
    bias: np.ndarray | None = None


def _fuse(pattern: Pattern, root: _Root) -> bool:
    """Puts LayerNormalization or RMSNormalization in the place of a normalization."""
    shape = root.value.shape
    assert shape is not None  # the reduction has known axes
    first = root.squares.axes[0]
    trailing = root.squares.axes == tuple(range(first, len(shape)))
    if not trailing or not root.is_mean():
        return False
    sizes = tuple(static(root.value, root.squares.axes) or ())
    centred = _centre(pattern, root)
    fused = "LayerNormalization" if centred else "RMSNormalization"
    if pattern.opset < (_LAYER_NORM_OPSET if centred else _RMS_NORM_OPSET):
        return False
    normal = _divided(pattern, root) or (_merged(pattern, root, *centred) if centred else None)
    if normal is None or not private([*normal.inner, root.node, *root.inner], normal.last):
        return False
    given = (normal.scale, normal.bias)
    arrays = [None if array is None else _spread(array, sizes, len(shape)) for array in given]
    if any(array is None for array, was in zip(arrays, given, strict=True) if was is not None):
        return False
    last, scale, bias = normal.last, *arrays
    if scale is None and bias is None:
        last, scale = _absorb(pattern, last, "Mul", sizes)
    if bias is None and centred:
        last, bias = _absorb(pattern, last, "Add", sizes)
    name = last.outputs[0].name
    source = centred[0] if centred else root.value
    weights = [np.ones(sizes, np.float32) if scale is None else scale]
    if bias is not None:
        weights.append(bias)
    inputs = [
        source,
        *(
            pattern.constant(np.ascontiguousarray(array, np.float32), f"{name}_{what}")
            for array, what in zip(weights, ("scale", "bias"), strict=False)
        ),
    ]
    axis = first - len(shape)
    output = pattern.add(last, fused, inputs, "fused", axis=axis, epsilon=root.epsilon)
    pattern.replace(
        last.outputs[0], output, f"became {fused}, which squares and adds in FP32 inside"
    )
    return True


def _inverse(pattern: Pattern, root: _Root) -> ir.Node | None:
    """The node that makes 1 / root, if that is all that is made of the root."""
    node = pattern.reader(root.node.outputs[0], "Reciprocal", "Div")
    if node is None or node.op_type == "Reciprocal":
        return node
    return node if is_number(node.inputs[0], 1, 0) else None


def _divided(pattern: Pattern, root: _Root) -> _Normal | None:
    """value / root, value * (1 / root), or value * (scale / root)."""
    node = pattern.reader(root.node.outputs[0], "Div")
    if node is not None and node.inputs[0] is root.value:
        return _Normal(node, ())
    inverse = _inverse(pattern, root)
    if inverse is None:
        return None
    inner, scale = [inverse], None
    product = pattern.reader(inverse.outputs[0], "Mul")
    if product is not None and root.value not in product.inputs:
        scale = _other_constant(product, inverse.outputs[0])
        if scale is None:
            return None
        inner.append(product)
        product = pattern.reader(product.outputs[0], "Mul")
    if product is None or root.value not in product.inputs:
        return None
    return _Normal(product, tuple(inner), scale)


def _merged(pattern: Pattern, root: _Root, value: ir.Value, mean: ir.Value) -> _Normal | None:
    """value * s + (bias - mean * s), with s = scale / root: how TensorFlow writes it."""
    inverse = _inverse(pattern, root)
    if inverse is None:
        return None
    inner, scale, factor = [inverse], None, inverse.outputs[0]
    product = pattern.reader(factor, "Mul")
    if product is not None:
        scale = _other_constant(product, factor)
        if scale is None:
            return None
        inner.append(product)
        factor = product.outputs[0]
    products = pattern.readers(factor, "Mul")
    if products is None or len(products) != 2:
        return None
    scaled = next((node for node in products if value in node.inputs), None)
    shift = next((node for node in products if node is not scaled), None)
    last = pattern.reader(scaled.outputs[0], "Add", "Sub") if scaled is not None else None
    if scaled is None or shift is None or last is None:
        return None
    inner += [scaled, shift]
    other = next(v for v in last.inputs if v is not scaled.outputs[0])
    if last.op_type == "Sub" and last.inputs[0] is not scaled.outputs[0]:
        return None
    sign = 1 if last.op_type == "Add" else -1
    bias = None
    offset = pattern.made_by(other, "Add", "Sub")
    if offset is not None:
        inner.append(offset)
        bias = _other_constant(offset, shift.outputs[0])
        if bias is None or (offset.op_type == "Sub" and offset.inputs[1] is not shift.outputs[0]):
            return None
        bias = bias * sign
        sign *= 1 if offset.op_type == "Add" else -1
    elif other is not shift.outputs[0]:
        return None
    centre = next(v for v in shift.inputs if v is not factor)
    negated = pattern.made_by(centre, "Neg")
    if negated is not None:
        inner.append(negated)
        centre, sign = negated.inputs[0], -sign
    return _Normal(last, tuple(inner), scale, bias) if centre is mean and sign == -1 else None


def _other_constant(node: ir.Node, value: ir.Value) -> np.ndarray | None:
    """The constant that a node combines with `value`."""
    return next((array_of(v) for v in node.inputs if v is not value), None)


def _spread(array: np.ndarray, sizes: tuple[int, ...], rank: int) -> np.ndarray | None:
    """A scale or bias as an array of the normalized axes; None if it varies over others."""
    extra = array.ndim - len(sizes)
    if extra > 0:
        if array.ndim > rank or any(size != 1 for size in array.shape[:extra]):
            return None
        array = array.reshape(array.shape[extra:])
    try:
        return np.broadcast_to(array, sizes)
    except ValueError:
        return None


def _absorb(
    pattern: Pattern, last: ir.Node, op_type: str, sizes: tuple[int, ...]
) -> tuple[ir.Node, np.ndarray | None]:
    """The node after a normalization that scales or shifts it, and by what, if there is one."""
    node, shape = pattern.reader(last.outputs[0], op_type), last.outputs[0].shape
    array = _other_constant(node, last.outputs[0]) if node is not None else None
    if node is None or array is None or shape is None:
        return last, None
    spread = _spread(array, sizes, len(shape))
    return (last, None) if spread is None else (node, spread)


def _as_length(pattern: Pattern, root: _Root) -> None:
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


def _with_element(pattern: Pattern, root: _Root, value: ir.Value, shrink: float) -> ir.Value | None:
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
    square = _square(pattern, reduced.value) if reduced is not None else None
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
        # min(1 / length, c) is 1 / max(length, 1 / c); the floor is one that FP16 can hold.
        assert found is not None
        floor = max(1 / found[1], FLOAT16.smallest_subnormal)
        constant = pattern.scalar(floor, f"{output.name}_floor")
        assert length is not None
        length = pattern.add(node, "Max", [length, constant], "floored")
    for product in products:
        other = next(value for value in product.inputs if value is not output)
        result = pattern.add(product, "Div", [other, length], "quotient", product.outputs[0].shape)
        pattern.replace(product.outputs[0], result, "times 1 / x became a division by x")


def _is_length(pattern: Pattern, value: ir.Value | None) -> bool:
    """Whether a value cannot be negative because it is a length or a root."""
    return pattern.made_by(value, "ReduceL2", "ReduceL1", "Sqrt", "Abs") is not None


def _visible_floor(pattern: Pattern, node: ir.Node) -> None:
    """A floor under a length that FP16 sees: below it, FP16 holds no vector but zero."""
    found = _lower_bound(node) if len(node.inputs) > 1 else None
    if found is None or not 0 < found[1] < FLOAT16.smallest_subnormal:
        return
    value, _ = found
    if pattern.made_by(value, "ReduceL2", "ReduceL1", "Sqrt") is None:
        return
    name = node.outputs[0].name
    floor = pattern.scalar(FLOAT16.smallest_subnormal, f"{name}_floor")
    result = pattern.add(node, "Max", [value, floor], "visible")
    pattern.replace(
        node.outputs[0], result, f"the floor {found[1]:.3g} became FP16's smallest number"
    )
