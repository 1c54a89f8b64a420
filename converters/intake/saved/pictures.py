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


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    import tensorflow as tf

    mean = tf.reduce_mean(images, (-3, -2), keepdims=True)
    return (images - mean) * factor + mean


def _saturation(images: Tensor, factor: Tensor) -> Tensor:
    """The distance from the largest channel grows, or until one of them is zero."""
    import tensorflow as tf

    value = tf.reduce_max(images, -1, keepdims=True)
    spread = value - tf.reduce_min(images, -1, keepdims=True)
    most = value / tf.where(spread <= 0.0, tf.ones_like(spread), spread)
    return value - (value - images) * tf.maximum(tf.minimum(factor, most), 0.0)


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
    full = tf.minimum(tf.maximum(tf.concat(channels, -1), 0.0), 1.0)
    return ((full - 1.0) * saturation + 1.0) * value


def _hue(images: Tensor, delta: Tensor) -> Tensor:
    import tensorflow as tf

    hsv = _to_hsv(images)
    hue = hsv[..., :1] + delta
    return _to_rgb(tf.concat([hue - tf.floor(hue), hsv[..., 1:]], -1))


_COLOURS: dict[str, Filling] = {
    "AdjustContrastv2": _contrast,
    "AdjustHue": _hue,
    "AdjustSaturation": _saturation,
    "HSVToRGB": _to_rgb,
    "RGBToHSV": _to_hsv,
}
PICTURES: dict[str, Gap] = {
    **{op: always(filling) for op, filling in _COLOURS.items()},
    "ExtractImagePatches": _patches,
    **dict.fromkeys(("ResizeArea", "ResizeBicubic", "ScaleAndTranslate"), _resizing),
}
