"""Fourier transforms that LiteRT lacks, as products with sines and cosines."""

from collections.abc import Sequence

import numpy as np

from tfmp.converters.intake import Filling, Gap, Graph, Node, parts
from tfmp.shared.backend import Tensor

Pair = tuple[Tensor, Tensor]


def real_fourier(node: Node, graph: Graph) -> Filling | None:
    """Transforms of real numbers, where LiteRT's own takes no such lengths."""
    import tensorflow as tf

    lengths, shape = graph.static(node.inputs[1]), graph.specs[node.inputs[0]].shape
    if lengths is None or shape.rank is None or shape[-1] is None:
        return None
    *others, terms = (int(one) for one in lengths)
    whole = all(size == length for size, length in zip(shape[-2:-1], others, strict=False))
    if not whole or not any(length & (length - 1) for length in (*others, terms)):
        return None
    used = min(shape[-1], terms)
    tables = _tables(used, terms // 2 + 1, terms)

    def transformed(x: Tensor, _: Tensor) -> Tensor:
        real, imaginary = (tf.matmul(x[..., :used], table) for table in tables)
        pair = real, imaginary
        for axis, size in enumerate(reversed(others), start=2):
            pair = _along(pair, size, axis, back=False)
        return tf.complex(*pair)

    return transformed


def fourier(node: Node, graph: Graph) -> Filling | None:
    """Transforms of complex numbers over their last one to three axes, and back."""
    import tensorflow as tf

    shape, axes = graph.specs[node.inputs[0]].shape, _axes(node)
    if shape.rank is None or None in shape[-axes:]:
        return None
    back = node.op.startswith("I")

    def transformed(z: Tensor) -> Tensor:
        pair = parts(z)
        for axis in range(1, axes + 1):
            pair = _along(pair, shape[-axis], axis, back)
        return tf.complex(*pair)

    return transformed


def inverse_real_fourier(node: Node, graph: Graph) -> Filling | None:
    """Real numbers of the first half of their terms; the other half mirrors it."""
    import tensorflow as tf

    lengths, axes = graph.static(node.inputs[1]), _axes(node)
    shape = graph.specs[node.inputs[0]].shape
    if lengths is None or shape.rank is None or None in shape[-axes:]:
        return None
    *others, length = (int(one) for one in lengths)
    if [*shape[-axes:-1]] != others:  # cut or filled up, which nobody was seen to ask for
        return None
    used = min(shape[-1], length // 2 + 1)
    cosines, sines = (table / length for table in _tables(used, length, length))
    # Every term but the first, and the middle one of an even number, stands for two.
    weights = np.full((used, 1), 2.0, np.float32)
    weights[0] = 1.0
    if length % 2 == 0 and used == length // 2 + 1:
        weights[-1] = 1.0

    def transformed(z: Tensor, _: Tensor) -> Tensor:
        pair = parts(z)
        for axis, size in enumerate(reversed(others), start=2):
            pair = _along(pair, size, axis, back=True)
        real, imaginary = (part[..., :used] for part in pair)
        return tf.matmul(real, weights * cosines) + tf.matmul(imaginary, weights * sines)

    return transformed


def _axes(node: Node) -> int:
    return int(node.op[-2]) if node.op.endswith("D") else 1


def _tables(before: int, after: int, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary parts of the turns of a transform of this many terms."""
    angles = 2 * np.pi * (np.outer(np.arange(before), np.arange(after)) % terms) / terms
    return np.cos(angles).astype(np.float32), -np.sin(angles).astype(np.float32)


def _along(pair: Pair, size: int, axis: int, back: bool) -> Pair:
    """A transform over an axis, counted from the last, which is 1."""
    import tensorflow as tf

    cosines, sines = _tables(size, size, size)
    if back:
        cosines, sines = cosines / size, -sines / size
    rank = pair[0].shape.rank
    order = [*range(rank)]
    order[-1], order[-axis] = order[-axis], order[-1]
    turned = pair if axis == 1 else [tf.transpose(part, order) for part in pair]
    real, imaginary = turned
    whole: Sequence[Tensor] = (
        tf.matmul(real, cosines) - tf.matmul(imaginary, sines),
        tf.matmul(real, sines) + tf.matmul(imaginary, cosines),
    )
    there = whole if axis == 1 else [tf.transpose(part, order) for part in whole]
    return there[0], there[1]


SPECTRA: dict[str, Gap] = {
    **dict.fromkeys(("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"), fourier),
    **dict.fromkeys(("IRFFT", "IRFFT2D"), inverse_real_fourier),
    **dict.fromkeys(("RFFT", "RFFT2D"), real_fourier),
}
