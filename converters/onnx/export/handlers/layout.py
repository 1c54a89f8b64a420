"""Ops about shapes, channel layout and choice."""

import numpy as np
import onnx
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect
from tf2onnx.onnx_opset.nn import ConvOp

from tfmp.converters.onnx.export.handlers.building import Builder, handler, shape_of


@tf_op("Conv3D")
class GroupedConv3D(ConvOp):
    """3-D convolutions with groups, for which tf2onnx takes one group."""

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        channels_last = node.get_attr_str("data_format") == "NDHWC"
        channels = shape_of(ctx, node.input[0])[-1 if channels_last else 1]
        per_group = shape_of(ctx, node.input[1])[-2]
        super().version_13(ctx, node, **kwargs)
        if channels > 0 and per_group > 0:
            node.set_attr("group", channels // per_group)


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
