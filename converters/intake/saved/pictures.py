"""Changes of pictures that a format lacks: colours, sizes and patches."""

import numpy as np

from tfmp.converters.intake.saved.graph import Filling, Gap, Graph, Node, always
from tfmp.shared.backend import Tensor


def _resizing(node: Node, graph: Graph) -> Filling | None:
    """Resizing is linear along each axis: a product with the matrix of weights, found by trying."""
    import tensorflow as tf

    size, *placed = (_known(name, graph) for name in node.inputs[1:])
    shape = graph.specs[node.inputs[0]].shape
    if size is None or shape[1] is None or shape[2] is None or any(one is None for one in placed):
        return None
    options: dict[str, bool | str] = {
        name: node.attributes[name].b
        for name in ("align_corners", "half_pixel_centers", "antialias")
        if name in node.attributes
    }
    if "kernel_type" in node.attributes:
        options["kernel_type"] = node.attributes["kernel_type"].s.decode()
    function = getattr(tf.raw_ops, node.op)

    def weights(axis: int, before: int, after: int) -> np.ndarray:
        basis = np.eye(before, dtype=np.float32).reshape(before, before, 1, 1)
        known = [one for one in placed if one is not None]
        names = zip(("scale", "translation"), known, (1.0, 0.0), strict=False)
        along = {name: [float(values[axis]), across] for name, values, across in names}
        with tf.init_scope():
            resized = function(images=basis, size=(after, 1), **along, **options)
        return np.asarray(resized)[:, :, 0, 0]

    rows, columns = (weights(axis, shape[1 + axis], int(size[axis])) for axis in (0, 1))

    def resized(images: Tensor, *_: Tensor) -> Tensor:
        tall = tf.einsum("nhwc,hy->nywc", tf.cast(images, tf.float32), rows)
        return tf.einsum("nywc,wx->nyxc", tall, columns)

    return resized


def _known(name: str, graph: Graph) -> np.ndarray | None:
    """The value of a tensor, also where it is computed of sizes that do not vary."""
    value, node = graph.static(name), graph.makers[name]
    if value is not None or node.op not in ("Cast", "RealDiv", "StridedSlice"):
        return value
    if node.op == "StridedSlice":
        whole, *bounds = (graph.static(one) for one in node.inputs)
        maker = graph.makers[node.inputs[0]]
        sizes = graph.specs[maker.inputs[0]].shape.as_list() if maker.op == "Shape" else whole
        if sizes is None or any(one is None or one.size != 1 for one in bounds):
            return None
        taken = list(sizes)[slice(*(int(one.item()) for one in bounds if one is not None))]
        return None if None in taken else np.array(taken)
    operands = [_known(one, graph) for one in node.inputs]
    known = [one.astype(np.float32) for one in operands if one is not None]
    if len(known) < len(operands):
        return None
    return known[0] if node.op == "Cast" else known[0] / known[1]


def _projected(node: Node, graph: Graph) -> Filling | None:
    """Affine and perspective transforms: each pixel of the result is looked up where it was."""
    import tensorflow as tf

    size, mode = _known(node.inputs[2], graph), node.attributes["fill_mode"].s
    if size is None or mode == b"WRAP":
        return None
    y, x = np.mgrid[: int(size[0]), : int(size[1])]
    # FP16 would hold places in a large image to half a pixel; float64 stays as it is.
    points = np.stack([x, y, np.ones_like(x)]).reshape(3, -1).astype(np.float64)
    dtype = graph.specs[node.inputs[0]].dtype

    def placed(place: Tensor, extent: Tensor) -> Tensor:
        """Where a place beyond the image is taken from."""
        if mode == b"REFLECT":  # with the outermost pixel twice
            place = tf.math.floormod(place, 2.0 * extent)
            place = tf.minimum(place, 2.0 * extent - 1.0 - place)
        return place if mode == b"CONSTANT" else tf.clip_by_value(place, 0.0, extent - 1.0)

    def moved(images: Tensor, transforms: Tensor, _: Tensor, fill: Tensor | float = 0.0) -> Tensor:
        pixels = tf.cast(images, tf.float32)
        extents = tf.shape(images)[1:3]
        matrix = tf.pad(transforms, [[0, 0], [0, 1]], constant_values=1.0)
        found = tf.matmul(tf.cast(tf.reshape(matrix, (-1, 3, 3)), tf.float64), points)
        found = found + tf.zeros((tf.shape(images)[0], 1, 1), tf.float64)  # one for each image
        wide = tf.unstack(tf.cast(extents, tf.float64))
        down, right = (placed(found[:, row] / found[:, 2], wide[1 - row]) for row in (1, 0))

        def read(row: Tensor, column: Tensor) -> Tensor:
            """Pixels of whole places, or the fill value outside."""
            inside = (row >= 0.0) & (row < wide[0]) & (column >= 0.0) & (column < wide[1])
            row, column = (
                tf.clip_by_value(tf.cast(one, tf.int32), 0, extent - 1)
                for one, extent in ((row, extents[0]), (column, extents[1]))
            )
            flat = tf.reshape(pixels, (-1, extents[0] * extents[1], images.shape[3]))
            value = tf.gather(flat, row * extents[1] + column, batch_dims=1)
            return tf.where(inside[..., None], value, fill)

        if node.attributes["interpolation"].s == b"NEAREST":  # halves away from zero, as C rounds
            result = read(*(tf.sign(one) * tf.floor(tf.abs(one) + 0.5) for one in (down, right)))
        else:
            rows, columns = ((tf.floor(one), tf.floor(one) + 1.0) for one in (down, right))
            result = 0.0
            for row in rows:
                for column in columns:
                    share = (1.0 - tf.abs(down - row)) * (1.0 - tf.abs(right - column))
                    result += tf.cast(share, tf.float32)[..., None] * read(row, column)
        return tf.cast(tf.reshape(result, (-1, *y.shape, images.shape[3])), dtype)

    return moved


def _patches(node: Node, graph: Graph) -> Filling | None:
    """Each pixel of a patch becomes a channel: a convolution with kernels of a single one."""
    import tensorflow as tf

    shape = graph.specs[node.inputs[0]].shape
    if shape[3] is None:
        return None
    names = ("ksizes", "strides", "rates")
    size, steps, rates = (list(node.attributes[name].list.i)[1:3] for name in names)
    padding = node.attributes["padding"].s.decode()
    channels, dtype = shape[3], graph.specs[node.inputs[0]].dtype
    count = size[0] * size[1]
    kernel = np.eye(count, dtype=np.float32).reshape(*size, 1, count)

    def cut(images: Tensor) -> Tensor:
        height, width = _sizes(images)
        images = tf.transpose(tf.cast(images, tf.float32), (0, 3, 1, 2))
        planes = tf.reshape(images, (-1, height, width, 1))
        found = tf.nn.conv2d(planes, kernel, steps, padding, dilations=rates)
        rows, columns = _sizes(found)
        found = tf.reshape(found, (-1, channels, rows, columns, count))
        found = tf.transpose(found, (0, 2, 3, 4, 1))
        return tf.cast(tf.reshape(found, (-1, rows, columns, count * channels)), dtype)

    return cut


def _sizes(images: Tensor) -> list[int | Tensor]:
    """Height and width, as numbers where they are known."""
    import tensorflow as tf

    whole = tf.shape(images)
    return [whole[axis] if images.shape[axis] is None else images.shape[axis] for axis in (1, 2)]


def _to_hsv(images: Tensor) -> Tensor:
    import tensorflow as tf

    red, green, blue = (images[..., index : index + 1] for index in range(3))
    value = tf.reduce_max(images, -1, keepdims=True)
    spread = value - tf.reduce_min(images, -1, keepdims=True)
    grey = spread <= 0.0
    safe = tf.where(grey, tf.ones_like(spread), spread)
    saturation = spread / tf.where(value <= 0.0, tf.ones_like(value), value)
    # In sixths of a turn, from the channel that is largest.
    hue = tf.where(green >= value, (blue - red) / safe + 2.0, (red - green) / safe + 4.0)
    hue = tf.where(red >= value, (green - blue) / safe, hue) / 6.0
    hue = tf.where(hue < 0.0, hue + 1.0, hue)
    hue, saturation = (
        tf.where(none, tf.zeros_like(part), part)
        for none, part in ((grey, hue), (value <= 0.0, saturation))
    )
    return tf.concat([hue, saturation, value], -1)


def _to_rgb(images: Tensor) -> Tensor:
    import tensorflow as tf

    hue, saturation, value = (images[..., index : index + 1] for index in range(3))
    sixths = hue * 6.0
    channels = (
        tf.abs(sixths - 3.0) - 1.0,
        2.0 - tf.abs(sixths - 2.0),
        2.0 - tf.abs(sixths - 4.0),
    )
    # The shares of the channels in a pure colour.
    shares = tf.minimum(tf.maximum(tf.concat(channels, -1), 0.0), 1.0)
    return ((shares - 1.0) * saturation + 1.0) * value


PICTURES: dict[str, Gap] = {
    "ExtractImagePatches": _patches,
    "HSVToRGB": always(_to_rgb),
    "ImageProjectiveTransformV3": _projected,
    "RGBToHSV": always(_to_hsv),
    **dict.fromkeys(("ResizeArea", "ResizeBicubic", "ScaleAndTranslate"), _resizing),
}
