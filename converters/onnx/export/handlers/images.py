"""Projective transforms, and boxes cut out of images."""

import numpy as np
from onnx import TensorProto
from tf2onnx.graph import Node

from tfmp.converters.onnx.export.handlers.building import (
    Builder,
    handler,
    shape_of,
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


@handler("CropAndResize", opset=13)
def crop_and_resize(b: Builder, node: Node) -> None:
    """Boxes cut out of images, each resized by two matrix products."""
    sizes = static_value(node.inputs[3])
    _, *extents, _ = shape_of(b.graph, node.input[0])
    if sizes is None or min(extents) < 0:
        raise ValueError("cropping boxes needs images and crops of a fixed size")
    nearest = node.get_attr_str("method") == "nearest"
    # FP16 would hold places in a large image to half a pixel.
    boxes = b.unsqueeze(b.cast(node.input[1], TensorProto.DOUBLE), 1)
    (rows, above), (columns, beside) = (
        _of_boxes(b, boxes, axis, extents[axis], int(sizes[axis]), nearest) for axis in (0, 1)
    )
    image = b.op("Gather", b.cast(node.input[0], TensorProto.FLOAT), node.input[2], axis=0)
    image = b.op("Transpose", image, perm=[0, 3, 1, 2])
    cut = b.op("MatMul", b.op("MatMul", rows, image), b.op("Transpose", columns, perm=[0, 1, 3, 2]))
    inside = b.op("And", b.unsqueeze(above, 1, 3), b.unsqueeze(beside, 1, 2))
    outside = b.const(node.get_attr_value("extrapolation_value", 0.0), np.float32)
    b.finish("Transpose", b.op("Where", inside, cut, outside), perm=[0, 2, 3, 1])


def _of_boxes(
    b: Builder, boxes: str, axis: int, extent: int, size: int, nearest: bool
) -> tuple[str, str]:
    """What each row or column of a crop takes from those of its image.

    Args:
        b: builder at TensorFlow's node.
        boxes: (boxes, 1, 4): y1, x1, y2 and x2 as shares of the image, float64.
        axis: 0 for rows, 1 for columns.
        extent: of the image.
        size: of the crop.
        nearest: whether the nearest pixel is taken, instead of two neighbours.

    Returns:
        Shares, (boxes, 1, size, extent), and whether the place lies in the image, (boxes, size).
    """
    first, last = (b.slice(boxes, 2, start, start + 1) for start in (axis, axis + 2))
    # The only pixel is the middle one.
    steps = b.const(np.arange(size) / (size - 1) if size > 1 else [0.5], np.float64)
    share = b.op("Add", first, b.op("Mul", b.op("Sub", last, first), steps))
    place = b.op("Mul", share, b.const(extent - 1, np.float64))  # (boxes, 1, size)
    low, high = (b.const(value, np.float64) for value in (0.0, extent - 1.0))
    within = b.op("And", b.op("GreaterOrEqual", place, low), b.op("LessOrEqual", place, high))
    if nearest:  # halves away from zero, as C rounds
        place = b.op("Floor", b.op("Add", place, b.const(0.5, np.float64)))
    pixels = b.const(np.arange(extent), np.float64)
    apart = b.op("Abs", b.op("Sub", b.unsqueeze(place, 3), pixels))
    shares = b.op("Max", b.op("Sub", b.const(1.0, np.float64), apart), b.const(0.0, np.float64))
    return b.cast(shares, TensorProto.FLOAT), b.squeeze(within, 1)
