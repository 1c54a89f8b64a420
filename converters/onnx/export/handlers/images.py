"""Resizing by fixed matrices, projective transforms, and colour spaces."""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.nn import Resize

from tfmp.converters.onnx.export.handlers.building import (
    Builder,
    handler,
    shape_of,
    static_value,
)
from tfmp.shared.backend import Tensor


class _FixedResize(Resize):
    """Resizing between fixed sizes by two matrix products, else as tf2onnx does it."""

    options: tuple[str, ...] = ("align_corners",)

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        import tensorflow as tf

        sizes = static_value(node.inputs[1])
        if sizes is None or min(shape_of(ctx, node.input[0])[1:3]) < 0:
            super().version_11(ctx, node, **kwargs)
            return
        function = getattr(tf.raw_ops, node.type)
        options = {name: bool(node.get_attr_value(name, 0)) for name in cls.options}

        def resize(images: Tensor, size: int, _: int) -> Tensor:
            return function(images=images, size=[size, 1], **options)

        _by_matrices(Builder(ctx, node), resize, [int(size) for size in sizes])


@tf_op("ResizeBicubic")
class ResizeBicubic(_FixedResize):
    """Bicubic resizing: TensorFlow looks its kernel up in a table, ONNX computes it.

    Besides, ONNX Runtime moves transposes through Resize, and then refuses to shrink along the new
    axes.
    """

    options = ("align_corners", "half_pixel_centers")


@tf_op("ResizeArea")
class ResizeArea(_FixedResize):
    """The mean of the area under each pixel; tf2onnx averages only whole pixels."""


@handler("ScaleAndTranslate", opset=13)
def scale_and_translate(b: Builder, node: Node) -> None:
    """Resizing with a filter as wide as the step between the pixels: `antialias=True`, Lanczos."""
    import tensorflow as tf

    _, *extents, _ = shape_of(b.graph, node.input[0])
    if min(extents) < 0:
        raise ValueError("resizing with a filter needs images of a fixed size")
    sizes, scale, shift = (static_value(value) for value in node.inputs[1:])
    if sizes is None or scale is None or shift is None:
        raise ValueError("resizing with a filter needs a fixed scale and size")
    kernel = node.get_attr_str("kernel_type")
    antialias = bool(node.get_attr_value("antialias", 1))

    def resize(images: Tensor, size: int, axis: int) -> Tensor:
        return tf.raw_ops.ScaleAndTranslate(
            images=images,
            size=[size, 1],
            scale=[scale[axis], 1.0],
            translation=[shift[axis], 0.0],
            kernel_type=kernel,
            antialias=antialias,
        )

    _by_matrices(b, resize, [int(size) for size in sizes])


def _by_matrices(
    b: Builder, resize: Callable[[Tensor, int, int], Tensor], sizes: Sequence[int]
) -> None:
    """Replaces a resizing to a fixed size by a matrix product along each axis.

    Args:
        b: builder at TensorFlow's node, whose first input holds the images.
        resize: TensorFlow's resizing of images one pixel wide, to a height, along axis 0 or 1.
        sizes: height and width of the result.
    """
    from tensorflow.python.eager import context

    source = b.node.input[0]
    _, *extents, _ = shape_of(b.graph, source)
    matrices = []
    for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        # What becomes of each single lit pixel is a column of the matrix.
        lit = np.eye(extent, dtype=np.float32).reshape(extent, extent, 1, 1)
        with context.eager_mode():
            matrices.append(resize(lit, size, axis).numpy().reshape(extent, size).T)
    image = b.op("Transpose", b.cast(source, TensorProto.FLOAT), perm=[0, 3, 1, 2])
    rows, columns = b.const(matrices[0], np.float32), b.const(matrices[1].T, np.float32)
    resized = b.op("MatMul", b.op("MatMul", rows, image), columns)
    b.finish("Transpose", resized, perm=[0, 2, 3, 1])


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


@handler("RGBToHSV", opset=13)
def to_hsv(b: Builder, node: Node) -> None:
    """Hue, saturation and value; hue by the largest of the three, as in Smith 1978."""
    red, green, blue = (b.slice(node.input[0], -1, i, i + 1) for i in range(3))
    zero, one = b.const(0.0), b.const(1.0)
    value = b.op("Max", red, green, blue)
    spread = b.op("Sub", value, b.op("Min", red, green, blue))
    grey = b.op("LessOrEqual", spread, zero)
    safe = b.op("Where", grey, one, spread)
    sixth = b.op("Div", b.const(1 / 6), safe)

    def sector(first: str, second: str, start: float) -> str:
        return b.op("Add", b.op("Mul", sixth, b.op("Sub", first, second)), b.const(start))

    hue = b.op(
        "Where",
        b.op("Equal", red, value),
        sector(green, blue, 0.0),
        b.op(
            "Where",
            b.op("Equal", green, value),
            sector(blue, red, 2 / 6),
            sector(red, green, 4 / 6),
        ),
    )
    hue = b.op("Where", grey, zero, hue)
    hue = b.op("Where", b.op("Less", hue, zero), b.op("Add", hue, one), hue)
    dark = b.op("LessOrEqual", value, zero)
    filled = b.op("Div", spread, b.op("Where", dark, one, value))
    b.finish("Concat", hue, b.op("Where", dark, zero, filled), value, axis=-1)


@handler("AdjustSaturation", opset=13)
def adjust_saturation(b: Builder, node: Node) -> None:
    """Each channel's distance from the largest grows by a factor, or until one of them is zero."""
    image, factor = node.input
    value = b.reduce("ReduceMax", image, -1)
    spread = b.op("Sub", value, b.reduce("ReduceMin", image, -1))
    grey = b.op("LessOrEqual", spread, b.const(0.0))
    most = b.op("Div", value, b.op("Where", grey, b.const(1.0), spread))
    scale = b.op("Max", b.op("Min", factor, most), b.const(0.0))
    b.finish("Sub", value, b.op("Mul", b.op("Sub", value, image), scale))


@handler("ExtractImagePatches", opset=13)
def extract_patches(b: Builder, node: Node) -> None:
    """Each pixel of a patch becomes a channel: a convolution with kernels of a single one."""
    names = ("ksizes", "strides", "rates")
    sizes, strides, rates = (list(node.get_attr(name).ints)[1:3] for name in names)
    shape, dtype = shape_of(b.graph, node.input[0]), b.graph.get_dtype(node.output[0])
    channels, count = shape[-1], sizes[0] * sizes[1]
    if channels < 0:
        raise ValueError("patches need images of a fixed number of channels")
    kernel = np.tile(np.eye(count, dtype=np.float32).reshape(count, 1, *sizes), (channels, 1, 1, 1))
    image = b.op("Transpose", b.cast(node.input[0], TensorProto.FLOAT), perm=[0, 3, 1, 2])
    pads = [0, 0, 0, 0]
    if node.get_attr_str("padding") == "SAME":
        if min(shape[1:3]) < 0:
            raise ValueError("patches beyond the edges need images of a fixed size")
        for axis, (size, step, rate) in enumerate(zip(sizes, strides, rates, strict=True)):
            rest = shape[1 + axis] - 1
            beyond = max(rest // step * step + (size - 1) * rate - rest, 0)
            pads[axis], pads[2 + axis] = beyond // 2, beyond - beyond // 2
    patches = b.op(
        "Conv",
        image,
        b.const(kernel, np.float32),
        pads=pads,
        dilations=rates,
        group=channels,
        kernel_shape=sizes,
        strides=strides,
    )
    places = b.slice(b.op("Shape", patches), 0, 2, 4)
    apart = b.op("Concat", b.const([-1, channels, count], np.int64), places, axis=0)
    patches = b.op("Transpose", b.op("Reshape", patches, apart), perm=[0, 3, 4, 2, 1])
    last = b.const([channels * count], np.int64)
    together = b.op("Concat", b.const([-1], np.int64), places, last, axis=0)
    b.finish("Cast", b.op("Reshape", patches, together), to=dtype)


@handler("HSVToRGB", opset=13)
def to_rgb(b: Builder, node: Node) -> None:
    """Colours from hue, saturation and value: the inverse of `to_hsv`."""
    hue, saturation, value = (b.slice(node.input[0], -1, i, i + 1) for i in range(3))
    zero, one, two = b.const(0.0), b.const(1.0), b.const(2.0)
    turn = b.op("Mul", hue, b.const(6.0))

    def away(place: float) -> str:
        return b.op("Abs", b.op("Sub", turn, b.const(place)))

    def channel(full: str) -> str:
        full = b.op("Max", b.op("Min", full, one), zero)
        return b.op("Mul", value, b.op("Add", pale, b.op("Mul", saturation, full)))

    pale = b.op("Sub", one, saturation)
    red = channel(b.op("Sub", away(3.0), one))
    b.finish(
        "Concat",
        red,
        channel(b.op("Sub", two, away(2.0))),
        channel(b.op("Sub", two, away(4.0))),
        axis=-1,
    )


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
