"""New constants and casts of an ONNX graph, with their types and shapes."""

import numpy as np
import onnx_ir as ir


def new_constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    """A new initializer of `graph`, which has no value of that name yet."""
    value = ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
        shape=ir.Shape(array.shape),
        const_value=ir.Tensor(array, name=name),
    )
    graph.initializers.add(value)
    return value


def new_cast(value: ir.Value, dtype: ir.DataType, name: str, node_name: str) -> ir.Node:
    """A Cast of `value`, which is in no graph yet.

    Args:
        value: value to cast.
        dtype: dtype of the output.
        name: name of the output.
        node_name: name of the node.
    """
    node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", dtype.value)], name=node_name)
    output = node.outputs[0]
    output.name, output.type, output.shape = name, ir.TensorType(dtype), value.shape
    return node
