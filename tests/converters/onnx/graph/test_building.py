"""Constants and casts say their types and shapes themselves."""

import numpy as np
import onnx_ir as ir
from onnx_graphs import parse

from tfmp.converters.onnx.graph.building import new_cast, new_constant


def test_a_constant_is_typed_and_holds_the_array_itself():
    graph = ir.from_proto(parse("agraph (float[N] x) => (float[N] y) { y = Relu(x) }")).graph
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    value = new_constant(graph, "weights", array)
    assert graph.initializers["weights"] is value
    assert value.dtype == ir.DataType.FLOAT16
    assert list(value.shape) == [2, 3]
    assert np.shares_memory(value.const_value.numpy(), array)


def test_a_cast_has_the_shape_of_what_it_reads():
    graph = ir.from_proto(parse("agraph (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")).graph
    node = new_cast(graph.inputs[0], ir.DataType.FLOAT16, "x_half", "cast_x")
    (output,) = node.outputs
    assert (node.name, output.name, output.dtype) == ("cast_x", "x_half", ir.DataType.FLOAT16)
    assert output.shape == graph.inputs[0].shape
    assert node.graph is None
