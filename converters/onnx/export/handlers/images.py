"""Projective transforms of images."""

import numpy as np
from onnx import TensorProto
from tf2onnx.graph import Node

from tfmp.converters.onnx.export.handlers.building import (
    Builder,
    handler,
    static_value,
)

_PADDING = {"CONSTANT": "zeros", "NEAREST": "border", "REFLECT": "reflection"}


@handler("ImageProjectiveTransformV3", opset=16)
def project(b: Builder, node: Node) -> None:
    """Affine and perspective transforms: each pixel of the result is looked up where it was."""
    fill_mode = node.get_attr_str("fill_mode")
    size = static_value(node.inputs[2])
    if size is None or fill_mode not in _PADDING:
        raise ValueError(
            f"projective transforms need a fixed size and fill mode constant, nearest or "
            f"reflect, received {fill_mode!r}"
        )
    rows, columns = (int(extent) for extent in size)
    image = b.op("Transpose", b.cast(node.input[0], TensorProto.FLOAT), perm=[0, 3, 1, 2])
    nearest = node.get_attr_str("interpolation") == "NEAREST"
    grid = _grid(b, node.input[1], (rows, columns), image, nearest)
    # Outside lies zero; with another fill value the image is held against that.
    level = node.input[3] if fill_mode == "CONSTANT" else b.const(0.0, np.float32)
    sampled = b.op(
        "GridSample",
        b.op("Sub", image, level),
        grid,
        mode="nearest" if nearest else "bilinear",
        padding_mode=_PADDING[fill_mode],
        align_corners=0,
    )
    moved = b.op("Transpose", b.op("Add", sampled, level), perm=[0, 2, 3, 1])
    b.finish("Cast", moved, to=b.graph.get_dtype(node.output[0]))


def _grid(b: Builder, transforms: str, size: tuple[int, int], image: str, nearest: bool) -> str:
    """Where each pixel of the result lies in the image, as GridSample counts: -1 to 1."""
    y, x = np.mgrid[: size[0], : size[1]]
    points = np.stack([x, y, np.ones_like(x)]).reshape(1, 3, -1)
    column = b.op("Shape", b.slice(transforms, 1, 0, 1))
    ones = b.op("Expand", b.const([[1.0]], np.float32), column)
    matrix = b.op("Concat", transforms, ones, axis=1)
    matrix = b.op("Reshape", matrix, b.const([-1, 3, 3], np.int64))
    places = b.op("MatMul", matrix, b.const(points, np.float32))
    places = b.op("Transpose", places, perm=[0, 2, 1])
    place = b.op("Div", b.slice(places, 2, 0, 2), b.slice(places, 2, 2, 3))
    if nearest:  # TensorFlow rounds halves away from zero, GridSample to even
        far = b.op("Floor", b.op("Add", b.op("Abs", place), b.const(0.5, np.float32)))
        place = b.op("Mul", b.op("Sign", place), far)
    shape = b.op("Shape", image)
    extent = b.op("Gather", shape, b.const([3, 2], np.int64), axis=0)
    extent = b.cast(extent, TensorProto.FLOAT)
    doubled = b.op("Add", b.op("Mul", place, b.const(2.0, np.float32)), b.const(1.0, np.float32))
    normal = b.op("Sub", b.op("Div", doubled, extent), b.const(1.0, np.float32))
    normal = b.op("Reshape", normal, b.const([-1, *size, 2], np.int64))
    samples = b.op("Gather", shape, b.const([0], np.int64), axis=0)
    rest = b.const([*size, 2], np.int64)
    return b.op("Expand", normal, b.op("Concat", samples, rest, axis=0))
