"""Ops about shapes and channel layout."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.nn import ConvOp, Resize

from tfmp.converters.onnx.handlers.building import Builder, shape_of


@tf_op("Conv3D")
class GroupedConv3D(ConvOp):
    """tf2onnx takes one group for every 3-D convolution."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        channels_last = node.get_attr_str("data_format") == "NDHWC"
        channels = shape_of(ctx, node.input[0])[-1 if channels_last else 1]
        per_group = shape_of(ctx, node.input[1])[-2]
        super().version_13(ctx, node, **kwargs)
        if channels > 0 and per_group > 0:
            node.set_attr("group", channels // per_group)


@tf_op("BroadcastArgs")
class BroadcastArgs:
    """The shape that two shapes broadcast to: that of the sum of two such tensors."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        b = Builder(ctx, node)
        dtype = ctx.get_dtype(node.output[0])
        fill = onnx.numpy_helper.from_array(np.zeros(1, np.bool_))
        one, other = (
            b.op("ConstantOfShape", b.cast(shape, TensorProto.INT64), value=fill)
            for shape in node.input
        )
        b.finish("Cast", b.op("Shape", b.op("Or", one, other)), to=dtype)


@tf_op("XlaDynamicUpdateSlice")
class UpdateSlice:
    """Writes a block into a tensor; like XLA, moves a block that would stick out back inside."""

    @classmethod
    def version_16(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        block = shape_of(ctx, node.input[1])
        if any(size < 0 for size in block):
            raise ValueError("slice_update needs an update of fixed shape")
        b = Builder(ctx, node)
        start = b.cast(node.input[2], TensorProto.INT64)
        room = b.op("Sub", b.op("Shape", node.input[0]), b.const(block, np.int64))
        start = b.op("Max", b.op("Min", start, room), b.const([0] * len(block), np.int64))
        offsets = np.moveaxis(np.indices(block), 0, -1).astype(np.int64)
        indices = b.op("Add", b.const(offsets, np.int64), start)
        b.finish("ScatterND", node.input[0], indices, node.input[1])


@tf_op("ResizeBicubic")
class ShrinkBicubic(Resize):
    """Cubic resizing; where it shrinks, as two matrix products.

    ONNX Runtime moves transposes through Resize and then refuses cubic shrinking along the axes
    where they put it. Interpolation to a fixed size is a fixed matrix along each axis.
    """

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        _, height, width, _ = shape_of(ctx, node.input[0])
        fixed = node.inputs[1].is_const() and min(height, width) > 0
        sizes = node.inputs[1].get_tensor_value() if fixed else [height, width]
        if sizes[0] >= height and sizes[1] >= width:
            super().version_11(ctx, node, **kwargs)
            return
        b = Builder(ctx, node)
        image = b.op("Transpose", node.input[0], perm=[0, 3, 1, 2])
        rows = b.const(cubic_matrix(height, sizes[0]), np.float32)
        columns = b.const(cubic_matrix(width, sizes[1]).T, np.float32)
        resized = b.op("MatMul", b.op("MatMul", rows, image), columns)
        b.finish("Transpose", resized, perm=[0, 2, 3, 1])


def cubic_matrix(size: int, target: int) -> np.ndarray:
    """The (target, size) matrix of cubic interpolation as TensorFlow's ResizeBicubic does it.

    Keys' kernel with a = -1/2 at half-pixel centres; taps outside the image are left out and the
    others scaled to a sum of one.
    """
    centre = (np.arange(target) + 0.5) * size / target - 0.5
    whole = np.floor(centre)
    # TensorFlow looks the kernel up in a table of 1024 steps (resize_bicubic_op.cc).
    centre = whole + np.rint((centre - whole) * 1024) / 1024
    first = whole.astype(int) - 1
    matrix = np.zeros((target, size))
    for tap in range(4):
        index = first + tap
        inside = (index >= 0) & (index < size)
        weight = _keys(np.abs(centre - index))
        matrix[np.flatnonzero(inside), index[inside]] += weight[inside]
    return matrix / matrix.sum(axis=1, keepdims=True)


def _keys(distance: np.ndarray) -> np.ndarray:
    """Keys 1981, "Cubic convolution interpolation for digital image processing", a = -1/2."""
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
