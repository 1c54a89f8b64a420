"""Nodes that round float32 values as FP16 hardware does where a pair of casts does not suffice."""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.emulation.sum_builder import SumBuilder
from tfmp.converters.onnx.graph import FP32, array_of, is_float, operand
from tfmp.shared.numerics import FLOAT16

# x * (2**13 + 1) - (x * (2**13 + 1) - x) keeps the eleven leading bits of a float32's 24, those of
# TF32 (Dekker, "A floating-point technique for extending the available precision", 1971).
_SPLITTER = 2.0**13 + 1


def flushed(build: SumBuilder, value: ir.Value) -> list[ir.Node]:
    """Nodes of which the last gives a value with zero for numbers subnormal in FP16."""
    size = build.node("Abs", [value], [FP32], {})
    least = build.floats(FLOAT16.smallest_normal)
    small = build.node("Less", [size.outputs[0], least], [ir.DataType.BOOL], {})
    kept = build.node("Where", [small.outputs[0], build.floats(0.0), value], [FP32], {})
    kept.outputs[0].shape = value.shape
    return [size, small, kept]


def to_tf32(build: SumBuilder, node: ir.Node) -> None:
    """Rounds the two factors of a product in FP32 to TF32; the nodes come before the product."""
    for index in (0, 1):
        value = operand(node, index)
        if not is_float(value):
            continue
        array = array_of(value)
        if array is not None:
            high = build.floats(tf32(array))
        else:
            scaled = build.op("Mul", value, build.floats(_SPLITTER))
            high = build.op("Sub", scaled, build.op("Sub", scaled, value))
        node.replace_input_with(index, high)


def tf32(array: np.ndarray) -> np.ndarray:
    """A float32 array rounded to TF32's ten fraction bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = array * np.float32(_SPLITTER)
        return np.asarray(scaled - (scaled - array), np.float32)
