"""Changes of colours that TFLite lacks, as TensorFlow says them of themselves."""

from collections.abc import Callable

from tfmp.converters.intake import Filling, Gap, Graph, Node
from tfmp.shared.backend import Tensor


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


def _always(filling: Filling) -> Gap:
    def gap(node: Node, graph: Graph) -> Filling:
        return filling

    return gap


_FILLINGS: dict[str, Callable[..., Tensor]] = {
    "AdjustContrastv2": _contrast,
    "AdjustHue": _hue,
    "AdjustSaturation": _saturation,
    "HSVToRGB": _to_rgb,
    "RGBToHSV": _to_hsv,
}
COLOURS: dict[str, Gap] = {op: _always(filling) for op, filling in _FILLINGS.items()}
