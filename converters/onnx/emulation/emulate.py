"""Emulates FP16 arithmetic on a CPU: an FP16 graph runs in FP32, with every FP16 tensor rounded.

A GPU kernel multiplies FP16 values, accumulates in FP32 and rounds its results. An FP32 kernel does
the same if its operands hold only FP16 values and a pair of casts rounds its results: this is the
profile "gpu". The profile "pessimistic" also rounds partial sums.
"""

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.emulation.fp16_sums import sum_in_fp16
from tfmp.converters.onnx.emulation.profiles import GPU, Profile
from tfmp.converters.onnx.emulation.recurrent import RECURRENT, unroll
from tfmp.converters.onnx.fp16 import FP16, FP32
from tfmp.converters.onnx.graph import EXACT, is_float, new_cast, retype

# Key in the model's metadata for the ops that `emulated` could not look into.
FP32_INSIDE = "tfmp.fp32_inside"


def emulated(model: ir.Model, profile: Profile = GPU) -> ir.Model:
    """Turns an FP16 model into a float32 one with the results of FP16 kernels.

    Args:
        model: the model, prepared by `fp16.prepare`; it is changed in place. Its graph inputs and
            outputs keep their types.
        profile: the FP16 hardware to emulate.

    Returns:
        The model. Every value that was FP16 is float32 and holds only FP16 numbers; a value
        past 65504 is infinite. The model's metadata names under `FP32_INSIDE` the op types that
        compute in FP32 inside though FP16 hardware would not: recurrent ones between their steps,
        and ops that still add up in FP32 although `profile` holds sums in FP16.
    """
    graph = model.graph
    boundary = [value for value in graph.inputs if is_float(value, FP16)]
    nodes = list(graph.all_nodes())
    half = [node for node in nodes if any(is_float(value, FP16) for value in node.outputs)]
    _widen_constants(model)
    for node in nodes:
        _widen_node(node, graph)
    products, left = unroll(model, [node for node in half if node.op_type in RECURRENT])
    half = [node for node in half if node.graph is not None]
    if profile.block is not None:
        left = sorted({*left, *sum_in_fp16(model, [*half, *products], profile.block)})
    model.metadata_props[FP32_INSIDE] = ", ".join(left)
    for subgraph in model.graphs():
        if subgraph is not graph:
            for value in (*subgraph.inputs, *subgraph.outputs):
                if is_float(value, FP16):
                    retype(value, FP32)
    for value in boundary:
        _widen_input(graph, value)
    for index, value in enumerate(list(graph.outputs)):
        if value.metadata_props.pop("tfmp.half_output", None):
            _narrow_output(graph, index)
    return model


def _widen_constants(model: ir.Model) -> None:
    for graph in model.graphs():
        for value in graph.initializers.values():
            if is_float(value, FP16) and not value.is_graph_input():
                assert value.const_value is not None
                wide = value.const_value.numpy().astype(np.float32)
                value.const_value = ir.tensor(wide, name=value.name)
                retype(value, FP32)


def _widen_node(node: ir.Node, main: ir.Graph) -> None:
    """Makes one node compute in FP32 and rounds its FP16 results behind it."""
    widen_attributes(node)
    for value in node.outputs:
        if not is_float(value, FP16):
            continue
        retype(value, FP32)
        if value.is_graph_output() and node.graph is main:
            value.metadata_props["tfmp.half_output"] = "1"
        if node.op_type not in EXACT and node.op_type not in ("If", "Loop", "Scan"):
            _round_behind(node, value)


def widen_attributes(node: ir.Node) -> None:
    """Makes float32 of every FP16 type and tensor in a node's attributes."""
    for name, attribute in list(node.attributes.items()):
        if name in ("to", "dtype") and attribute.value == FP16.value:
            node.attributes[name] = ir.AttrInt64(name, FP32.value)
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype == FP16:
                wide = ir.tensor(tensor.numpy().astype(np.float32))
                node.attributes[name] = ir.AttrTensor(name, wide)


def _round_behind(node: ir.Node, value: ir.Value) -> None:
    """Inserts Cast(float16) -> Cast(float) between `value` and all its readers."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    down = _cast(value, FP16, f"{value.name}_rounded_fp16")
    up = _cast(down.outputs[0], FP32, f"{value.name}_rounded")
    value.replace_all_uses_with(up.outputs[0], replace_graph_outputs=True)
    down.replace_input_with(0, value)
    graph.insert_after(node, [down, up])
    if up.outputs[0].is_graph_output():
        # The graph output keeps its name; the unrounded value behind it takes another.
        name = value.name
        value.name, up.outputs[0].name = f"{name}_exact", name
        marked = value.metadata_props.pop("tfmp.half_output", None)
        if marked:
            up.outputs[0].metadata_props["tfmp.half_output"] = marked


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    return new_cast(value, dtype, name, f"cast_{name}")


def _widen_input(graph: ir.Graph, value: ir.Value) -> None:
    """A float16 graph input stays float16; inside it is float32."""
    up = _cast(value, FP32, f"{value.name}_wide")
    for reader, index in value.uses():
        if reader is not up:
            reader.replace_input_with(index, up.outputs[0])
    if len(graph):
        graph.insert_before(graph[0], up)
    else:
        graph.append(up)


def _narrow_output(graph: ir.Graph, index: int) -> None:
    """A float16 graph output stays float16, under its name."""
    value = graph.outputs[index]
    name = value.name
    value.name = f"{name}_wide"
    down = _cast(value, FP16, str(name))
    graph.append(down)
    graph.outputs[index] = down.outputs[0]
