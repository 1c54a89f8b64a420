"""Exponentials that FP16 cannot hold: softmax and log-sum-exp in their safe forms.

FP16's exponential is infinite from 11.1 on and zero below -17.3. Softmax subtracts the largest
number first; a sum of exponentials whose logarithm is taken can do the same.
"""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import Pattern, private, reduction_of


def rewrite_exponentials(pattern: Pattern) -> None:
    """Fuses softmaxes; subtracts the maximum from other sums of powers."""
    for node in pattern.nodes("Div"):
        _softmax(pattern, node)
    for node in pattern.nodes("Log"):
        _log_sum_exp(pattern, node)


def _softmax(pattern: Pattern, node: ir.Node) -> None:
    powers = pattern.made_by(node.inputs[0], "Exp")
    total = pattern.made_by(node.inputs[1], "ReduceSum")
    reduced = reduction_of(total) if total is not None else None
    if powers is None or total is None or reduced is None:
        return
    summed = pattern.made_by(reduced.value, "Exp")  # the same, or written twice
    if summed is None or summed.inputs[0] is not powers.inputs[0]:
        return
    if len(reduced.axes) != 1 or not reduced.keepdims:
        return
    if not private([powers, summed, total], node):
        return
    assert reduced.value.shape is not None
    axis = reduced.axes[0] - len(reduced.value.shape)
    result = pattern.add(node, "Softmax", [powers.inputs[0]], "softmax", axis=axis)
    pattern.replace(
        node.outputs[0],
        result,
        "exponentials over their sum became Softmax, which subtracts the maximum",
    )


def _log_sum_exp(pattern: Pattern, node: ir.Node) -> None:
    total = pattern.made_by(node.inputs[0], "ReduceSum")
    reduced = reduction_of(total) if total is not None else None
    powers = pattern.made_by(reduced.value, "Exp") if reduced is not None else None
    if total is None or reduced is None or powers is None:
        return
    value = powers.inputs[0]
    if value is None or _is_bounded(pattern, value) or not private([powers, total], node):
        return
    axes, output = reduced.axes, node.outputs[0]
    largest = pattern.reduce(node, "ReduceMax", value, axes, "largest")
    # An infinite maximum must not be subtracted: inf - inf is not a number.
    bounds = [
        pattern.scalar(bound, f"{output.name}_{name}")
        for bound, name in ((-pattern.numbers.max, "lowest"), (pattern.numbers.max, "highest"))
    ]
    largest = pattern.add(node, "Clip", [largest, *bounds], "finite")
    below = pattern.add(node, "Sub", [value, largest], "below")
    exponentials = pattern.add(node, "Exp", [below], "powers")
    summed = pattern.reduce(node, "ReduceSum", exponentials, axes, "total")
    result = pattern.add(node, "Add", [pattern.add(node, "Log", [summed], "log"), largest], "sum")
    if not reduced.keepdims:
        indices = pattern.constant(np.array(axes, np.int64), f"{output.name}_axes")
        result = pattern.add(node, "Squeeze", [result, indices], "squeezed", output.shape)
    pattern.replace(
        output, result, "the logarithm of a sum of exponentials subtracts the maximum first"
    )


def _is_bounded(pattern: Pattern, value: ir.Value) -> bool:
    """Whether something was already subtracted that comes from a maximum."""
    node = pattern.made_by(value, "Sub")
    waiting = [node.inputs[1]] if node is not None else []
    for _ in range(_MAXIMUM_DEPTH):
        makers = [v.producer() for v in waiting if v is not None]
        if any(maker is not None and maker.op_type in ("ReduceMax", "Max") for maker in makers):
            return True
        waiting = [v for maker in makers if maker is not None for v in maker.inputs]
    return False


# TensorFlow makes the maximum finite before it subtracts it, in up to four nodes.
_MAXIMUM_DEPTH = 6
