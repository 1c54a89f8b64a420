"""Makes float32 of the parts of a model that have 16 bits, in place."""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph.building import converted
from tfmp.converters.onnx.graph.schema import FP32, HALVES, is_half, retype
from tfmp.converters.onnx.graph.traversal import graphs_of, nodes_of

_CODES = frozenset(dtype.value for dtype in HALVES)


def widen(model: ir.Model) -> None:
    """Makes float32 of every value, constant and attribute of 16 bits; nothing is rounded."""
    widen_constants(model)
    for node in nodes_of(model.graph):
        widen_attributes(node)
        for value in node.outputs:
            if is_half(value):
                retype(value, FP32)
    for graph in graphs_of(model):
        for value in graph.inputs:
            if is_half(value):
                retype(value, FP32)


def widen_constants(model: ir.Model, flushed: bool = False) -> None:
    """Makes float32 of every initializer of 16 bits that no caller can override.

    Args:
        model: the model.
        flushed: make zero of subnormal numbers.
    """
    for graph in model.graphs():
        for value in graph.initializers.values():
            if is_half(value) and not value.is_graph_input():
                assert value.const_value is not None
                changed = {"changed": flush} if flushed else {}
                value.const_value = converted(value.const_value, FP32, str(value.name), **changed)
                retype(value, FP32)


def flush(array: np.ndarray) -> np.ndarray:
    """The array with zero in the place of numbers that are subnormal in FP16."""
    return np.where(np.abs(array) < np.finfo(np.float16).tiny, array.dtype.type(0), array)


def widen_attributes(node: ir.Node, flushed: bool = False) -> None:
    """Makes float32 of every type and tensor of 16 bits in a node's attributes."""
    for name, attribute in list(node.attributes.items()):
        if name in ("to", "dtype") and attribute.value in _CODES:
            node.attributes[name] = ir.AttrInt64(name, FP32.value)
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype in HALVES:
                array = tensor.numpy().astype(np.float32)
                wide = ir.tensor(flush(array) if flushed else array)
                node.attributes[name] = ir.AttrTensor(name, wide)
