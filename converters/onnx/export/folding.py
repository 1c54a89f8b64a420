"""Folds constants once the weights are attached: transposes, reshapes and scales of weights.

Where weights are constants of the graph, tf2onnx and grappler take these steps. Here they run once
on NumPy arrays, and results are views of them wherever NumPy allows it, which whoever writes or
runs them copies one by one.
"""

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass

from tfmp.converters.onnx.graph import new_constant
from tfmp.converters.shared.tensors import unique_name


def fold_weights(model: ir.Model) -> None:
    """Evaluates nodes on constants alone, folds per-channel scales into convolutions, cleans up."""
    for node in list(model.graph):
        _fold_node(node, model.graph, model.opset_imports[""])
    for kind in ("Mul", "Add"):
        for node in [node for node in model.graph if node.op_type == kind]:
            _fold_into_conv(node, model.graph)
    for node in list(model.graph.all_nodes()):
        if node.op_type == "EyeLike":
            _numeric_eye(node)
        elif node.op_type == "ConvTranspose":
            _pad_output(node)
    RemoveUnusedNodesPass()(model)


def _replaced(graph: ir.Graph, value: ir.Value, array: np.ndarray) -> None:
    """Makes an initializer of `array` and lets it take the place of `value` everywhere."""
    constant = _added(graph, f"{value.name}_folded", array)
    value.replace_all_uses_with(constant, replace_graph_outputs=False)


def _added(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    """A new initializer, whose name gets a number if it is taken."""
    return new_constant(graph, unique_name(name, graph.initializers.keys()), array)


def _array(value: ir.Value | None) -> np.ndarray | None:
    """The array behind an initializer or Constant node; None for any other value."""
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def _ints(node: ir.Node, name: str) -> list[int] | None:
    return list(node.attributes[name].as_ints()) if name in node.attributes else None


# Shape is among them, or the weights that only it reads would stay in the file.
_FOLDED = frozenset(
    "Add Concat Gather Identity Mul Neg Reshape Shape Squeeze Sub Transpose Unsqueeze".split()
)
# Folded for the sake of shapes alone: of weights they would make copies.
_OF_SHAPES = ("Concat", "Gather")


def _fold_node(node: ir.Node, graph: ir.Graph, opset: int) -> None:
    if node.op_type not in _FOLDED or node.domain != "" or node.outputs[0].is_graph_output():
        return
    arrays = {str(value.name): _array(value) for value in node.inputs if value is not None}
    given = {name: array for name, array in arrays.items() if array is not None}
    if len(given) < len(arrays):
        return
    if node.op_type in _OF_SHAPES and any(array.dtype.kind == "f" for array in given.values()):
        return
    if node.op_type == "Identity":  # which would be a copy
        (result,) = given.values()
    else:
        (result,) = ReferenceEvaluator(ir.to_proto(node), opsets={"": opset}).run(None, given)
    _replaced(graph, node.outputs[0], result)


def _single_conv(value: ir.Value | None) -> ir.Node | None:
    """The Conv that makes `value`, if nothing else reads it."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Conv" or value is None:
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _channel_vector(node: ir.Node) -> tuple[ir.Node, np.ndarray] | None:
    """(conv, vector) where `node` joins a Conv's output with one constant per channel."""
    for data, other in (node.inputs, node.inputs[::-1]):
        conv, array = _single_conv(data), _array(other)
        if conv is None or array is None:
            continue
        kernel = _array(conv.inputs[1])
        if kernel is None:
            continue
        channels = (kernel.shape[0], *(1,) * (kernel.ndim - 2))
        if array.size == channels[0] and array.shape[-len(channels) :] == channels:
            return conv, array.reshape(-1)
        if array.size == 1:
            return conv, np.full(kernel.shape[0], array.reshape(-1)[0], dtype=array.dtype)
    return None


def _fold_into_conv(node: ir.Node, graph: ir.Graph) -> None:
    """Conv(x, W, b) * s = Conv(x, W * s, b * s), Conv(x, W, b) + c = Conv(x, W, b + c).

    For s and c that are constant per output channel.
    """
    found = _channel_vector(node)
    if found is None or node.outputs[0].is_graph_output():
        return
    conv, vector = found
    given = conv.inputs[2] if len(conv.inputs) > 2 else None
    bias = _array(given)
    if given is not None and bias is None:
        return
    if node.op_type == "Mul":
        kernel = _array(conv.inputs[1])
        assert kernel is not None  # _channel_vector saw it
        scaled = np.multiply(kernel, vector.reshape((-1,) + (1,) * (kernel.ndim - 1)), order="C")
        conv.replace_input_with(1, _added(graph, f"{conv.inputs[1].name}_scaled", scaled))
        bias = None if bias is None else bias * vector
    else:
        bias = vector if bias is None else bias + vector
    if bias is not None:
        conv.resize_inputs(3)
        conv.replace_input_with(2, _added(graph, f"{conv.name}_bias", bias))
    (output,) = conv.outputs
    node.outputs[0].replace_all_uses_with(output)
    graph.remove(node, safe=True)
    output.name = node.outputs[0].name


def _pad_output(node: ir.Node) -> None:
    """Spells rows that a transposed convolution adds behind as ONNX does: its pads only cut."""
    pads = _ints(node, "pads") or []
    cut = list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True))
    if min(pads, default=0) < 0:
        # TensorFlow puts all of them behind.
        kept = [(0, 0) if begin + end < 0 else (begin, end) for begin, end in cut]
        added = [max(-begin - end, 0) for begin, end in cut]
        whole = [begin for begin, _ in kept] + [end for _, end in kept]
        node.attributes["pads"] = ir.AttrInt64s("pads", whole)
        node.attributes["output_padding"] = ir.AttrInt64s("output_padding", added)


def _numeric_eye(node: ir.Node) -> None:
    """ONNX Runtime has no boolean EyeLike."""
    if node.attributes.get_int("dtype", ir.DataType.FLOAT.value) != ir.DataType.BOOL.value:
        return
    graph, output = node.graph, node.outputs[0]
    assert isinstance(graph, ir.Graph)
    node.attributes["dtype"] = ir.AttrInt64("dtype", ir.DataType.FLOAT.value)
    cast = ir.Node("", "Cast", [output], [ir.AttrInt64("to", ir.DataType.BOOL.value)])
    cast.name = f"{node.name}_bool"
    cast.outputs[0].name = f"{cast.name}_output"
    output.replace_all_uses_with(cast.outputs[0], replace_graph_outputs=True)
    cast.replace_input_with(0, output)
    output.dtype, cast.outputs[0].dtype = ir.DataType.FLOAT, ir.DataType.BOOL
    graph.insert_after(node, cast)
