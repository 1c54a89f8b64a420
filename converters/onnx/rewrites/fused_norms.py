"""Puts LayerNormalization and RMSNormalization in the place of their formulas."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    PRODUCTS,
    Pattern,
    array_of,
    is_float,
    is_number,
    private,
    reduction_of,
    static,
)
from tfmp.converters.onnx.rewrites.roots import Root

_LAYER_NORM_OPSET = 17
_RMS_NORM_OPSET = 23
# What comes out of them has no offset of an input's unit.
_MIXING = PRODUCTS | {"Einsum", "Gather", "GRU", "LSTM", "RNN", "LayerNormalization"}


@dataclass(frozen=True)
class _Normal:
    """A normalization as it is written: its last node, the nodes inside, scale and bias."""

    last: ir.Node
    inner: tuple[ir.Node, ...]
    scale: np.ndarray | None = None
    bias: np.ndarray | None = None


def fuse(pattern: Pattern, root: Root) -> bool:
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
    # ONNX Runtime's CPU kernel subtracts the square of the mean from the mean of the squares, which
    # leaves nothing of 1013 +- 0.5: a raw input is centred before.
    source = centred[0] if centred and not _is_raw(centred[0]) else root.value
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


def _is_raw(value: ir.Value) -> bool:
    """Whether a value is made of a float input without a product or a table in between."""
    waiting, seen = [value], set[ir.Value]()
    while waiting:
        one = waiting.pop()
        node = one.producer()
        if node is None and one.is_graph_input() and is_float(one):
            return True
        if node is not None and node.op_type not in _MIXING and one not in seen:
            waiting += filter(None, node.inputs)
        seen.add(one)
    return False


def _centre(pattern: Pattern, root: Root) -> tuple[ir.Value, ir.Value] | None:
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


def _inverse(pattern: Pattern, root: Root) -> ir.Node | None:
    """The node that makes 1 / root, if that is all that is made of the root."""
    node = pattern.reader(root.node.outputs[0], "Reciprocal", "Div")
    if node is None or node.op_type == "Reciprocal":
        return node
    return node if is_number(node.inputs[0], 1, 0) else None


def _divided(pattern: Pattern, root: Root) -> _Normal | None:
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


def _merged(pattern: Pattern, root: Root, value: ir.Value, mean: ir.Value) -> _Normal | None:
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
    """The node that scales or shifts the result of `last`, else `last`; and the constant."""
    node, shape = pattern.reader(last.outputs[0], op_type), last.outputs[0].shape
    array = _other_constant(node, last.outputs[0]) if node is not None else None
    if node is None or array is None or shape is None:
        return last, None
    spread = _spread(array, sizes, len(shape))
    return (last, None) if spread is None else (node, spread)
