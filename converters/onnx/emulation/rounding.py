"""Nodes that round float32 values as FP16 hardware does where a pair of casts does not suffice."""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph import FP32, array_of, is_float, new_constant, operand
from tfmp.shared.numerics import FLOAT16

# x * (2**13 + 1) - (x * (2**13 + 1) - x) keeps the eleven leading bits of a float32's 24, those of
# TF32 (Dekker, "A floating-point technique for extending the available precision", 1971).
_SPLITTER = 2.0**13 + 1


class Roundings:
    """Adds such nodes to a model; constants that they share are made once."""

    def __init__(self, model: ir.Model) -> None:
        self._graph = model.graph
        self._constants: dict[float, ir.Value] = {}
        self._count = 0

    def flushed(self, value: ir.Value) -> list[ir.Node]:
        """Nodes of which the last gives a value with zero for numbers subnormal in FP16."""
        size = self._node("Abs", [value], value.shape)
        smallest = self._constant(FLOAT16.smallest_normal)
        small = self._node("Less", [size.outputs[0], smallest], value.shape, dtype=ir.DataType.BOOL)
        zero = self._constant(0.0)
        return [size, small, self._node("Where", [small.outputs[0], zero, value], value.shape)]

    def to_tf32(self, node: ir.Node) -> None:
        """Rounds the two factors of a product in FP32 to TF32."""
        for index in (0, 1):
            value = operand(node, index)
            if not is_float(value):
                continue
            array = array_of(value)
            if array is not None:
                rounded = new_constant(self._graph, self._name("tf32"), tf32(array))
                node.replace_input_with(index, rounded)
                continue
            scaled = self._node("Mul", [value, self._constant(_SPLITTER)], value.shape)
            rest = self._node("Sub", [scaled.outputs[0], value], value.shape)
            high = self._node("Sub", [scaled.outputs[0], rest.outputs[0]], value.shape)
            assert node.graph is not None
            node.graph.insert_before(node, [scaled, rest, high])
            node.replace_input_with(index, high.outputs[0])

    def _node(
        self,
        op_type: str,
        inputs: list[ir.Value],
        shape: ir.Shape | None,
        dtype: ir.DataType = FP32,
    ) -> ir.Node:
        name = self._name(op_type)
        node = ir.Node("", op_type, inputs, name=f"node_{name}")
        output = node.outputs[0]
        output.name, output.type, output.shape = name, ir.TensorType(dtype), shape
        return node

    def _constant(self, number: float) -> ir.Value:
        if number not in self._constants:
            array = np.array(number, np.float32)
            self._constants[number] = new_constant(self._graph, self._name("number"), array)
        return self._constants[number]

    def _name(self, hint: str) -> str:
        self._count += 1
        return f"tfmp_rounding_{hint}_{self._count}"


def tf32(array: np.ndarray) -> np.ndarray:
    """A float32 array rounded to TF32's ten fraction bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = array * np.float32(_SPLITTER)
        return np.asarray(scaled - (scaled - array), np.float32)
