"""Ops about shapes, channel layout and choice."""

import numpy as np
import onnx
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect

from tfmp.converters.onnx.export.handlers.building import Builder, handler, shape_of


@tf_op(["Select", "SelectV2"])
class Select(TensorSelect):
    """A choice as Where; tf2onnx adds products with zeros and ones, and 0 * infinity is not 0.

    The side that a model does not select is often the one that it guards against: a division by
    zero.
    """

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        node.set_attr("handles_nan", 1)
        super().version_9(ctx, node, **kwargs)


@handler("BroadcastArgs", opset=13)
def broadcast_args(b: Builder, node: Node) -> None:
    """The shape that two shapes broadcast to."""
    dtype = b.graph.get_dtype(node.output[0])
    fill = onnx.numpy_helper.from_array(np.zeros(1, np.bool_))
    one, other = (
        b.op("ConstantOfShape", b.cast(shape, TensorProto.INT64), value=fill)
        for shape in node.input
    )
    b.finish("Cast", b.op("Shape", b.op("Or", one, other)), to=dtype)


@handler("XlaDynamicUpdateSlice", opset=16)
def update_slice(b: Builder, node: Node) -> None:
    """Writes a block into a tensor; like XLA, moves a block that would stick out back inside."""
    block = shape_of(b.graph, node.input[1])
    if any(size < 0 for size in block):
        raise ValueError("slice_update needs an update of fixed shape")
    start = b.cast(node.input[2], TensorProto.INT64)
    room = b.op("Sub", b.op("Shape", node.input[0]), b.const(block, np.int64))
    start = b.op("Max", b.op("Min", start, room), b.const([0] * len(block), np.int64))
    offsets = np.moveaxis(np.indices(block), 0, -1).astype(np.int64)
    indices = b.op("Add", b.const(offsets, np.int64), start)
    b.finish("ScatterND", node.input[0], indices, node.input[1])


@handler("Roll", opset=13)
def roll(b: Builder, node: Node) -> None:
    """The end of each axis comes before its start; tf2onnx takes no list of one axis."""
    x, shifts, _ = node.input
    places = node.inputs[2].get_tensor_value(as_list=False).reshape(-1)
    shifts = b.op("Reshape", b.cast(shifts, TensorProto.INT64), b.const([-1], np.int64))
    shape, none = b.op("Shape", x), b.const([0], np.int64)
    for index, place in enumerate(places % len(shape_of(b.graph, node.output[0]))):
        size = b.slice(shape, 0, int(place), int(place) + 1)
        shift = b.slice(shifts, 0, index, index + 1)
        start, axis = b.op("Sub", size, b.op("Mod", shift, size)), b.const([place], np.int64)
        parts = b.op("Slice", x, start, size, axis), b.op("Slice", x, none, start, axis)
        x = b.op("Concat", *parts, axis=int(place))
    b.finish("Identity", x)


@handler("ReverseSequence", opset=10)
def reverse_sequence(b: Builder, node: Node) -> None:
    """The first elements of each row turned round.

    A row of none stays as it is, like a row of one: ONNX Runtime leaves the former unwritten.
    """
    count = b.op("Max", b.cast(node.input[1], TensorProto.INT64), b.const(1, np.int64))
    axes = {
        "time_axis": node.get_attr("seq_dim").i,
        "batch_axis": node.get_attr_value("batch_dim", 0),
    }
    if axes["batch_axis"] == axes["time_axis"] or max(axes.values()) > 1:
        raise ValueError("ReverseSequence has an ONNX form over the first two axes only")
    b.finish("ReverseSequence", node.input[0], count, **axes)
