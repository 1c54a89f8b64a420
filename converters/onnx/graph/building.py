"""New constants and casts of an ONNX graph, with their types and shapes."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

# Of a tensor that costs nothing to keep.
_SMALL_BYTES = 2**16


def new_constant(graph: ir.Graph, name: str, array: np.ndarray | ir.TensorProtocol) -> ir.Value:
    """A new initializer of `graph`, which has no value of that name yet."""
    tensor = ir.Tensor(array, name=name) if isinstance(array, np.ndarray) else array
    value = ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape.numpy()),
        const_value=tensor,
    )
    graph.initializers.add(value)
    return value


def converted(
    tensor: ir.TensorProtocol,
    dtype: ir.DataType,
    name: str,
    changed: Callable[[np.ndarray], np.ndarray] = lambda array: array,
) -> ir.TensorProtocol:
    """A tensor in another dtype, made whenever it is read: large models have room for one copy.

    Args:
        tensor: the tensor.
        dtype: the other dtype.
        name: of the new tensor.
        changed: what else is done to its array.
    """

    def made() -> ir.Tensor:
        with np.errstate(over="ignore", under="ignore"):
            return ir.Tensor(changed(tensor.numpy().astype(dtype.numpy())), name=name)

    small = tensor.nbytes <= _SMALL_BYTES
    return made() if small else ir.LazyTensor(made, dtype, ir.Shape(tensor.shape), name=name)


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
