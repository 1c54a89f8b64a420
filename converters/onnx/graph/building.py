"""New constants and casts of an ONNX graph, with their types and shapes."""

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.shared.frameworks import OrtSession

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
        array = tensor.numpy()
        if dtype == ir.DataType.FLOAT16 and array.dtype == np.float32 and not small:
            return ir.Tensor(changed(_rounder().run(None, {"x": array})[0]), name=name)
        with np.errstate(over="ignore", under="ignore"):
            return ir.Tensor(changed(array.astype(dtype.numpy())), name=name)

    small = tensor.nbytes <= _SMALL_BYTES
    return made() if small else ir.LazyTensor(made, dtype, ir.Shape(tensor.shape), name=name)


_CAST = """<ir_version: 8, opset_import: ["": 13]>
    cast (float[] x) => (float16[] y) { y = Cast <to = 10> (x) }"""


@cache
def _rounder() -> OrtSession:
    """What makes FP16 numbers of float32 ones: the same as NumPy's in a fortieth of the time."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False  # it would keep the room of the largest
    options.intra_op_num_threads = 1  # threads do not outlive a fork
    model = onnx.parser.parse_model(_CAST).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


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
