"""Moves scales out of FP16's sight: into the weights, or the epsilon, behind them.

`(x * 300) @ W` is `x @ (300 * W)`: the large numbers are never made. A scale below one makes
numbers smaller and stays, but behind a product of two values it goes in front of the product, as
`(q @ k) / 8` in attention: the product may pass what FP16 holds before it is scaled.

Where data show that a product passes it, `relu(x @ W) @ V` is `relu(x @ (W / 64)) @ (64 * V)`.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import (
    Pattern,
    array_of,
    constant_facts,
    node_matcher,
    private,
    remove_unused,
    where,
    with_constant,
)

# Ops that commute with a positive factor.
_CARRIES = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Relu")
_CARRIES_POOLED = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")

# Ops that can take a factor of their first operand, with what changes in them.
_TAKES = ("MatMul", "Gemm", "Conv", "ConvTranspose", "LayerNormalization", "RMSNormalization")


# Smaller factors than this are shared by both operands, so that neither becomes subnormal.
_SHARED_BELOW = 2.0**-6


def _scaled(node: ir.Node) -> tuple[ir.Value | None, float]:
    """The value that a Mul or Div scales by a constant, and the factor; 0 if it is none."""
    value, number = with_constant(node) or (None, 0.0)
    return value, number if node.op_type == "Mul" else 1 / number if number else 0.0


def scale_before(pattern: Pattern) -> None:
    """Puts constant factors below one in front of the products of two values behind which they are.

    ONNX Runtime's CUDA provider applies the factor before it rounds the product, other runtimes
    afterwards.
    """
    for node in pattern.nodes("Mul", "Div"):
        value, factor = _scaled(node)
        product = pattern.made_by(value, "MatMul")
        if product is None or not 0 < factor < 1 or not private([product], node):
            continue
        a, b = product.inputs
        if a is None or b is None or array_of(a) is not None or array_of(b) is not None:
            continue
        shared = factor < _SHARED_BELOW
        scale = pattern.scalar(
            factor**0.5 if shared else factor, f"{product.outputs[0].name}_scale"
        )
        a = pattern.add(node, "Mul", [a, scale], "scaled")
        if shared:
            b = pattern.add(node, "Mul", [b, scale], "scaled_too")
        result = pattern.add(node, "MatMul", [a, b], "product", node.outputs[0].shape)
        pattern.replace(
            node.outputs[0], result, f"its factor {factor:.6g} went in front of the product"
        )


def fold_scales(pattern: Pattern) -> None:
    """Folds constant factors past one into the linear ops and normalizations that read them."""
    for node in pattern.nodes("Mul", "Div"):
        value, factor = _scaled(node)
        if not 1 < factor < np.inf:
            continue
        takers = _takers(pattern, node.outputs[0], factor)
        if not takers:
            continue
        for take in takers:
            take()
        pattern.bypass(node, value, f"its factor {factor:.6g} went into the ops that it feeds")


def _takers(pattern: Pattern, value: ir.Value, factor: float) -> list[Callable[[], None]] | None:
    """The changes that allow `value` to be without its factor; None if it cannot be."""
    readers = pattern.readers(value, *_CARRIES, *_CARRIES_POOLED, *_TAKES)
    if not readers:
        return None
    takers: list[Callable[[], None]] = []
    for reader, index in value.uses():
        if index != 0:
            return None
        if reader.op_type in _TAKES:
            taker = _taker(pattern, reader, factor)
            more = [taker] if taker else None
        else:
            only = len(reader.outputs) == 1  # MaxPool also tells where its maxima are
            more = _takers(pattern, reader.outputs[0], factor) if only else None
        if more is None:
            return None
        takers += more
    return takers


def _taker(pattern: Pattern, node: ir.Node, factor: float) -> Callable[[], None] | None:
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        if len(node.outputs) > 1:
            return None
        return lambda: _scale_attribute(node, "epsilon", 1e-5, factor**-2)
    if node.op_type == "Gemm":
        if (
            abs(node.attributes.get_float("alpha", 1.0)) * factor
            >= pattern.numbers.overflow_threshold
        ):
            return None  # runtimes pass it on in the operands' type
        return lambda: _scale_attribute(node, "alpha", 1.0, factor)
    weights = node.inputs[1]
    array = array_of(weights)
    if weights is None or array is None or not array.size:
        return None
    if constant_facts(weights).peak * factor >= pattern.numbers.overflow_threshold:
        return None

    def scale_weights() -> None:
        scaled = (array.astype(np.float64) * factor).astype(array.dtype)
        node.replace_input_with(1, pattern.constant(scaled, f"{node.outputs[0].name}_weights"))

    return scale_weights


def _scale_attribute(node: ir.Node, name: str, default: float, factor: float) -> None:
    node.attributes[name] = ir.AttrFloat32(name, node.attributes.get_float(name, default) * factor)


# What a product is scaled down to: data that were not seen may be larger.
_ROOM = 16


def scale_down(
    model: ir.Model, peaks: Mapping[str, float], keep_fp32: Sequence[str] = ()
) -> list[str]:
    """Makes products that overflow on data smaller by powers of two, and what reads them larger.

    Args:
        model: a float32 model with named nodes; its results stay the same.
        peaks: the largest result of each node on data, by the node's name.
        keep_fp32: see `rules.decide`; the nodes that it names stay as they are.

    Returns:
        A sentence for each product.
    """
    kept = node_matcher(keep_fp32)
    pattern = Pattern(model, lambda node: bool(kept(node)))
    limit = pattern.numbers.max / _ROOM
    for node in pattern.nodes("MatMul", "Gemm", "Conv"):
        peak = peaks.get(str(node.name), 0.0)
        if not pattern.numbers.overflow_threshold <= peak < np.inf:
            continue
        factor = 2.0 ** math.ceil(math.log2(peak / limit))
        changes = _smaller(pattern, node, factor)
        for change in changes:
            change()
        if changes:
            text = f"reaches {peak:.3g} on the data: its weights became {factor:g} times smaller"
            pattern.done.append(f"{where(node)}: {text}, and those behind it larger")
    if pattern.done:
        remove_unused(model)
    return pattern.done


def _smaller(pattern: Pattern, node: ir.Node, factor: float) -> list[Callable[[], None]]:
    """The changes that make a product smaller by a factor; none if it cannot be.

    Its weights take the factor, and so do its biases, in the node and behind it.
    """
    constants = [(node, index) for index in (1, 2) if index < len(node.inputs)]
    value = node.outputs[0]
    while (add := pattern.reader(value, "Add")) is not None and add.inputs[0] is not add.inputs[1]:
        constants.append((add, 1 - list(add.inputs).index(value)))
        value = add.outputs[0]
    takers = _takers(pattern, value, factor)
    arrays = [array_of(reader.inputs[index]) for reader, index in constants]
    if not takers or any(array is None for array in arrays):
        return []
    smaller = [np.asarray(array) / np.float32(factor) for array in arrays]
    least = pattern.numbers.smallest_subnormal
    if any(np.any((np.abs(array) < least) & (array != 0)) for array in smaller[:1]):
        return []

    def scale() -> None:
        for (reader, index), array in zip(constants, smaller, strict=True):
            name = f"{reader.inputs[index].name}_smaller"
            reader.replace_input_with(index, pattern.constant(array, name))

    return [scale, *takers]
