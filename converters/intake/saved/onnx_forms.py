"""Operations that tf2onnx lacks or converts wrongly, and TFLite has or refuses."""

import numpy as np

from tfmp.converters.intake.saved.complex_numbers import absolute_values
from tfmp.converters.intake.saved.graph import Filling, Gap, Graph, Node, always
from tfmp.converters.intake.saved.spectra import by_operators, spectra
from tfmp.shared.backend import Tensor


def _erfc(x: Tensor) -> Tensor:
    import tensorflow as tf

    return 1.0 - tf.math.erf(x)


def _bucketize(node: Node, graph: Graph) -> Filling:
    """The number of boundaries at or below each value."""
    import tensorflow as tf

    limits = np.array(node.attributes["boundaries"].list.f, np.float32)

    def counted(x: Tensor) -> Tensor:
        return tf.reduce_sum(tf.cast(tf.cast(x, tf.float32)[..., None] >= limits, tf.int32), -1)

    return counted


def _one_hot(node: Node, graph: Graph) -> Filling:
    """Nothing is hot where the index is negative; ONNX counts such an index from the end.

    tf2onnx has integer and boolean rows for indices of one axis only.
    """
    import tensorflow as tf

    dtype, axis = graph.specs[node.outputs[0]].dtype, node.attributes["axis"].i

    def rows(indices: Tensor, depth: Tensor, on: Tensor, off: Tensor) -> Tensor:
        indices = tf.cast(indices, tf.int64)
        placed = tf.where(indices < 0, tf.cast(depth, tf.int64), indices)
        values = (tf.cast(value, tf.float32) for value in (on, off))
        return tf.cast(tf.one_hot(placed, depth, *values, axis, tf.float32), dtype)

    return rows


def _extremes(node: Node, graph: Graph) -> Filling:
    """Rows reduced into the segment of their number; a negative number is of no segment."""
    import tensorflow as tf

    dtype, owners = graph.specs[node.inputs[0]].dtype, graph.specs[node.inputs[1]].shape.rank
    largest = node.op == "UnsortedSegmentMax"
    scatter = tf.tensor_scatter_nd_max if largest else tf.tensor_scatter_nd_min
    empty = dtype.min if largest else dtype.max

    def reduced(values: Tensor, numbers: Tensor, count: Tensor) -> Tensor:
        numbers, count = tf.cast(numbers, tf.int32), tf.cast(count, tf.int32)
        # Rows of no segment go into one more, which is cut off.
        shape = tf.concat([[count + 1], tf.shape(values)[owners:]], 0)
        places = tf.where(numbers < 0, count, numbers)[..., None]
        return scatter(tf.fill(shape, empty), places, values)[:count]

    return reduced


def _set_diagonal(node: Node, graph: Graph) -> Filling | None:
    import tensorflow as tf

    rows, columns = graph.specs[node.inputs[0]].shape[-2:]
    place = graph.static(node.inputs[2])
    if rows is None or columns is None or place is None or place.size != 1:
        return None
    cells = np.eye(rows, columns, place.item(), dtype=bool)
    order = np.clip(np.arange(rows) + min(place.item(), 0), 0, cells.sum() - 1)[:, None]
    return lambda x, diagonal, _: tf.where(cells, tf.gather(diagonal, order, axis=-1), x)


def _scattered(node: Node, graph: Graph) -> Filling:
    """Into zeros, added up where an index may come twice: tf2onnx keeps the last."""
    import tensorflow as tf

    known = graph.static(node.inputs[0])
    rows = None if known is None else known.reshape(-1, known.shape[-1])
    once = rows is not None and len(np.unique(rows, axis=0)) == len(rows)
    scatter = tf.tensor_scatter_nd_update if once else tf.tensor_scatter_nd_add
    return lambda indices, values, size: scatter(tf.zeros(size, values.dtype), indices, values)


def _broadcast_shape(node: Node, graph: Graph) -> Filling:
    import tensorflow as tf

    dtype = graph.specs[node.outputs[0]].dtype
    return lambda *shapes: tf.shape(tf.logical_or(*(tf.fill(x, False) for x in shapes)), dtype)


def _update_slice(node: Node, graph: Graph) -> Filling | None:
    """Writes a block into a tensor; like XLA, moves a block that would stick out back inside."""
    import tensorflow as tf

    block = graph.specs[node.inputs[1]].shape
    if not block.is_fully_defined():
        return None
    offsets = np.moveaxis(np.indices(block), 0, -1).astype(np.int32)

    def written(x: Tensor, update: Tensor, start: Tensor) -> Tensor:
        room = tf.shape(x) - block
        inside = tf.maximum(tf.minimum(tf.cast(start, tf.int32), room), 0)
        return tf.tensor_scatter_nd_update(x, offsets + inside, update)

    return written


def _reverse_sequence(node: Node, graph: Graph) -> Filling:
    """A row of none stays as it is, like a row of one: ONNX Runtime leaves the former unwritten."""
    import tensorflow as tf

    axes = (node.attributes[name].i for name in ("seq_dim", "batch_dim"))
    along, across = axes
    return lambda x, count: tf.reverse_sequence(x, tf.maximum(count, 1), along, across)


def _crops(node: Node, graph: Graph) -> Filling | None:
    """Boxes cut out of images, each resized by two matrix products."""
    import tensorflow as tf

    size, shape = graph.static(node.inputs[3]), graph.specs[node.inputs[0]].shape
    if size is None or None in shape[1:3]:
        return None
    nearest = node.attributes["method"].s == b"nearest"
    outside = node.attributes["extrapolation_value"].f

    def taken(boxes: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        """Shares of an image's rows or columns in those of a crop, and which lie in the image."""
        extent, count = shape[1 + axis], int(size[axis])
        first, last = (boxes[:, place : place + 1] for place in (axis, axis + 2))
        # The only pixel is the middle one.
        steps = np.arange(count) / (count - 1) if count > 1 else np.array([0.5])
        place = (first + (last - first) * steps) * (extent - 1)
        within = (place >= 0.0) & (place <= extent - 1.0)
        if nearest:  # halves away from zero, as C rounds
            place = tf.floor(place + 0.5)
        shares = tf.maximum(1.0 - tf.abs(place[..., None] - np.arange(float(extent))), 0.0)
        return tf.cast(shares, tf.float32), within

    def cut(images: Tensor, boxes: Tensor, which: Tensor, _: Tensor) -> Tensor:
        # FP16 would hold places in a large image to half a pixel.
        (rows, above), (columns, beside) = (
            taken(tf.cast(boxes, tf.float64), axis) for axis in (0, 1)
        )
        image = tf.gather(tf.cast(images, tf.float32), which)
        found = tf.einsum("nyh,nhwc->nywc", rows, image)
        found = tf.einsum("nxw,nywc->nyxc", columns, found)
        inside = above[:, :, None, None] & beside[:, None, :, None]
        return tf.where(inside, found, outside)

    return cut


def _roll(node: Node, graph: Graph) -> Filling | None:
    """A list of one axis, which tf2onnx does not take, as that axis."""
    import tensorflow as tf

    axes = graph.static(node.inputs[2])
    if axes is None or axes.shape != (1,):
        return None
    return lambda x, shifts, _: tf.roll(x, shifts[0], int(axes[0]))


ONNX_FORMS: dict[str, Gap] = {
    **spectra(by_operators, lambda node, _: node.op in ("FFT", "IFFT"), open_sizes=True),
    "BroadcastArgs": _broadcast_shape,
    "Bucketize": _bucketize,
    "ComplexAbs": always(absolute_values),
    "CropAndResize": _crops,
    "Erfc": always(_erfc),  # exact GELU is x/2 * erfc(-x / sqrt(2)) in Keras
    "MatrixSetDiagV3": _set_diagonal,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Roll": _roll,
    "ScatterNd": _scattered,
    **dict.fromkeys(("UnsortedSegmentMax", "UnsortedSegmentMin"), _extremes),
    "XlaDynamicUpdateSlice": _update_slice,
}
