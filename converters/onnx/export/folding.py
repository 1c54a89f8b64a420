"""Folds constants once the weights are attached: transposes, reshapes and scales of weights.

Where weights are constants of the graph, tf2onnx and grappler take these steps. Here they run once
on NumPy arrays, and results are views of them wherever NumPy allows it, which whoever writes or
runs them copies one by one.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass

from tfmp.converters.onnx.graph import infer_types, new_constant


def fold_weights(model: ir.Model) -> None:
    """Evaluates nodes on constants alone, folds per-channel scales into convolutions, cleans up."""
    constants = _Constants(model.graph)
    for node in list(model.graph):
        _fold_node(node, constants, model.opset_imports[""])
    for node in list(model.graph):
        if node.op_type == "Mul":
            _fold_scale_into_conv(node, constants)
    for node in list(model.graph):
        if node.op_type == "Add":
            _fold_bias_into_conv(node, constants)
    for node in list(model.graph.all_nodes()):
        if node.op_type == "EyeLike":
            _numeric_eye(node)
        elif node.op_type == "Resize":
            _spell_nearest(node)
            _drop_empty_scales(node, constants)
        elif node.op_type == "ConvTranspose":
            _pad_output(node)
    _state_sizes(model, constants)
    RemoveUnusedNodesPass()(model)


class _Constants:
    """Arrays of the graph's constants, and registration of new ones."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph

    def array(self, value: ir.Value | None) -> np.ndarray | None:
        """The array behind an initializer or Constant node; None for any other value."""
        if value is None or value.is_graph_input():
            return None
        if value.const_value is not None:
            return value.const_value.numpy()
        node = value.producer()
        if node is not None and node.op_type == "Constant" and "value" in node.attributes:
            return node.attributes["value"].as_tensor().numpy()
        return None

    def replace(self, value: ir.Value, array: np.ndarray) -> ir.Value:
        """Makes an initializer of `array` and lets it take the place of `value` everywhere."""
        constant = self.add(f"{value.name}_folded", array)
        value.replace_all_uses_with(constant, replace_graph_outputs=False)
        return constant

    def add(self, name: str, array: np.ndarray) -> ir.Value:
        """A new initializer, whose name gets a number if it is taken."""
        unique, count = name, 0
        while unique in self._graph.initializers:
            count += 1
            unique = f"{name}_{count}"
        return new_constant(self._graph, unique, array)


def _ints(node: ir.Node, name: str) -> list[int] | None:
    return list(node.attributes[name].as_ints()) if name in node.attributes else None


# Shape is among them, or the weights that only it reads would stay in the file.
_FOLDED = frozenset(
    "Add Concat Gather Identity Mul Neg Reshape Shape Squeeze Sub Transpose Unsqueeze".split()
)
# Folded for the sake of shapes alone: of weights they would make copies.
_OF_SHAPES = ("Concat", "Gather")


def _fold_node(node: ir.Node, constants: _Constants, opset: int) -> None:
    if node.op_type not in _FOLDED or node.domain != "" or node.outputs[0].is_graph_output():
        return
    arrays = {str(value.name): constants.array(value) for value in node.inputs if value is not None}
    given = {name: array for name, array in arrays.items() if array is not None}
    if len(given) < len(arrays):
        return
    if node.op_type in _OF_SHAPES and any(array.dtype.kind == "f" for array in given.values()):
        return
    if node.op_type == "Identity":  # which would be a copy
        (result,) = given.values()
    else:
        (result,) = ReferenceEvaluator(ir.to_proto(node), opsets={"": opset}).run(None, given)
    constants.replace(node.outputs[0], result)


def _single_conv(value: ir.Value | None) -> ir.Node | None:
    """The Conv that makes `value`, if nothing else reads it."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Conv" or value is None:
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _channel_vector(node: ir.Node, constants: _Constants) -> tuple[ir.Node, np.ndarray] | None:
    """(conv, vector) where `node` joins a Conv's output with one constant per channel."""
    for data, other in (node.inputs, node.inputs[::-1]):
        conv, array = _single_conv(data), constants.array(other)
        if conv is None or array is None:
            continue
        kernel = constants.array(conv.inputs[1])
        if kernel is None:
            continue
        per_channel = (1,) * (array.ndim - kernel.ndim + 1) + (kernel.shape[0],)
        tail = (1,) * (kernel.ndim - 2)
        if array.size == kernel.shape[0] and _strip(array.shape) == _strip(per_channel[-1:] + tail):
            return conv, array.reshape(-1)
        if array.size == 1:
            return conv, np.full(kernel.shape[0], array.reshape(-1)[0], dtype=array.dtype)
    return None


def _strip(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape without its leading ones."""
    sizes = list(shape)
    while len(sizes) > 1 and sizes[0] == 1:
        sizes.pop(0)
    return tuple(sizes)


def _bypass(node: ir.Node, value: ir.Value) -> None:
    """Lets `value` take the place and the name of the node's output, and removes the node."""
    node.outputs[0].replace_all_uses_with(value)
    node.graph.remove(node, safe=True)
    value.name = node.outputs[0].name


def _conv_before(
    node: ir.Node, constants: _Constants
) -> tuple[ir.Node, np.ndarray, np.ndarray | None] | None:
    """The Conv that a node scales or shifts, by how much a channel, and the Conv's own bias."""
    found = _channel_vector(node, constants)
    if found is None or node.outputs[0].is_graph_output():
        return None
    conv, vector = found
    given = conv.inputs[2] if len(conv.inputs) > 2 else None
    bias = constants.array(given)
    return None if given is not None and bias is None else (conv, vector, bias)


def _fold_scale_into_conv(node: ir.Node, constants: _Constants) -> None:
    """Conv(x, W, b) * s = Conv(x, W * s, b * s), for s constant per output channel."""
    found = _conv_before(node, constants)
    if found is None:
        return
    conv, scale, bias = found
    kernel = constants.array(conv.inputs[1])
    assert kernel is not None  # _channel_vector saw it
    scaled = np.multiply(kernel, scale.reshape((-1,) + (1,) * (kernel.ndim - 1)), order="C")
    conv.replace_input_with(1, constants.add(f"{conv.inputs[1].name}_scaled", scaled))
    if bias is not None:
        conv.replace_input_with(2, constants.add(f"{conv.inputs[2].name}_scaled", bias * scale))
    _bypass(node, conv.outputs[0])


def _fold_bias_into_conv(node: ir.Node, constants: _Constants) -> None:
    """Conv(x, W, b) + c = Conv(x, W, b + c), for c constant per output channel."""
    found = _conv_before(node, constants)
    if found is None:
        return
    conv, shift, bias = found
    total = constants.add(f"{conv.name}_bias", shift if bias is None else bias + shift)
    conv.resize_inputs(3)
    conv.replace_input_with(2, total)
    _bypass(node, conv.outputs[0])


def _state_sizes(model: ir.Model, constants: _Constants) -> None:
    """Gives Resize whole sizes where its scales are fractions.

    floor(12 * float32(7 / 12)) is 7 in ONNX Runtime's arithmetic and 6 in ONNX's shape inference.
    The sizes name every axis, those that stay from the shape of the input: ONNX Runtime moves
    transposes through a Resize whose `axes` name a few, and then refuses to load it.
    """
    resizes = [node for node in model.graph if node.op_type == "Resize"]
    if not resizes:
        return
    known = model.clone()  # its inferred shapes have the error that is fixed here
    infer_types(known)
    shapes = {node.name: node.inputs[0].shape for node in known.graph if node.op_type == "Resize"}
    for node in resizes:
        scales = constants.array(node.inputs[2]) if len(node.inputs) > 2 else None
        shape = shapes[node.name]
        if scales is None or shape is None or scales.size != len(shape):
            continue
        axes = [axis for axis, scale in enumerate(scales) if scale != 1]
        if not axes or not all(isinstance(shape[axis], int) for axis in axes):
            continue
        node.resize_inputs(4)
        node.replace_input_with(2, None)
        node.replace_input_with(3, _whole_sizes(node, shape, scales, constants))


def _whole_sizes(
    node: ir.Node, shape: ir.Shape, scales: np.ndarray, constants: _Constants
) -> ir.Value:
    """The size of every axis behind a Resize; an axis of any size keeps its own."""
    graph, source, parts = node.graph, node.inputs[0], []
    assert isinstance(graph, ir.Graph)

    def before(name: str, op_type: str, inputs: Sequence[ir.Value | None], **options: int) -> None:
        attributes = [ir.AttrInt64(key, value) for key, value in options.items()]
        made = ir.Node("", op_type, inputs, attributes, name=f"{node.name}_{name}")
        graph.insert_before(node, made)
        made.outputs[0].name = f"{made.name}_output"
        made.outputs[0].dtype = ir.DataType.INT64
        parts.append(made.outputs[0])

    for free, run in groupby(range(len(shape)), lambda axis: not isinstance(shape[axis], int)):
        axes = list(run)
        if free:
            before(f"shape_{axes[0]}", "Shape", [source])
            index = constants.add(f"{node.name}_axes", np.array(axes, np.int64))
            before(f"kept_{axes[0]}", "Gather", [parts.pop(), index])
            continue
        sizes = [round(int(shape[axis]) * float(scales[axis])) for axis in axes]
        parts.append(constants.add(f"{node.name}_sizes", np.array(sizes, np.int64)))
    if len(parts) > 1:
        before("sizes", "Concat", list(parts), axis=0)
    return parts[-1]


def _spell_nearest(node: ir.Node) -> None:
    """floor((x + 1/2) / scale) in words that ONNX has not dropped since opset 13."""
    attributes = node.attributes
    old = attributes.get_string("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn"
    if old and attributes.get_string("nearest_mode", "") == "floor":
        # Half a pixel less, and rounding halves up instead of down.
        for name, value in (
            ("coordinate_transformation_mode", "half_pixel"),
            ("nearest_mode", "round_prefer_ceil"),
        ):
            attributes[name] = ir.AttrString(name, value)


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


def _drop_empty_scales(node: ir.Node, constants: _Constants) -> None:
    """Leaves scales out beside sizes: an empty constant counts as both."""
    if len(node.inputs) == 4 and node.inputs[3] is not None:
        scales = constants.array(node.inputs[2])
        if scales is not None and not scales.size:
            node.replace_input_with(2, None)


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
