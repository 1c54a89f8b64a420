"""Makes float32 of the FP16 parts of a model, in place."""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.fp16 import FP16, FP32
from tfmp.converters.onnx.graph import graphs_of, is_float, nodes_of, retype


def widen(model: ir.Model) -> None:
    """Makes float32 of every FP16 value, constant and attribute; nothing is rounded."""
    widen_constants(model)
    for node in nodes_of(model.graph):
        widen_attributes(node)
        for value in node.outputs:
            if is_float(value, FP16):
                retype(value, FP32)
    for graph in graphs_of(model):
        for value in graph.inputs:
            if is_float(value, FP16):
                retype(value, FP32)


def widen_constants(model: ir.Model, flushed: bool = False) -> None:
    """Makes float32 of every FP16 initializer that no caller can override.

    Args:
        model: the model.
        flushed: make zero of subnormal numbers.
    """
    for graph in model.graphs():
        for value in graph.initializers.values():
            if is_float(value, FP16) and not value.is_graph_input():
                assert value.const_value is not None
                wide = value.const_value.numpy().astype(np.float32)
                if flushed:
                    wide = flush(wide)
                value.const_value = ir.tensor(wide, name=value.name)
                retype(value, FP32)


def flush(array: np.ndarray) -> np.ndarray:
    """The array with zero in the place of numbers that are subnormal in FP16."""
    return np.where(np.abs(array) < np.finfo(np.float16).tiny, array.dtype.type(0), array)


def widen_attributes(node: ir.Node, flushed: bool = False) -> None:
    """Makes float32 of every FP16 type and tensor in a node's attributes."""
    for name, attribute in list(node.attributes.items()):
        if name in ("to", "dtype") and attribute.value == FP16.value:
            node.attributes[name] = ir.AttrInt64(name, FP32.value)
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype == FP16:
                array = tensor.numpy().astype(np.float32)
                wide = ir.tensor(flush(array) if flushed else array)
                node.attributes[name] = ir.AttrTensor(name, wide)
