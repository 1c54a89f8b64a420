"""Fourier transforms over one to three axes, as transforms along one axis at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfmp.converters.intake.saved.complex_numbers import parts
from tfmp.converters.intake.saved.graph import Filling, Gap, Graph, Node
from tfmp.shared.backend import Tensor

# Real parts, and imaginary ones unless all are zero.
_Parts = tuple[Tensor, Tensor | None]
# The first terms of a transform along the last axis, given the number of terms that it has (None
# where that varies), how many are read, and whether it goes back. What is given may be shorter.
_Along = Callable[[_Parts, Any, Any, bool], _Parts]
# Whether a format has the transform of a node over axes of these sizes.
_Native = Callable[[Node, list[int | None]], bool]


def spectra(along: _Along, native: _Native, open_sizes: bool) -> dict[str, Gap]:
    """The plain forms of all transforms, by their operations.

    Args:
        along: a transform along one axis.
        native: which transforms need no other form.
        open_sizes: whether `along` takes axes whose size varies.
    """

    def gap(node: Node, graph: Graph) -> Filling | None:
        import tensorflow as tf

        back, real = node.op.startswith("I"), "R" in node.op
        axes = int(node.op[-2]) if node.op.endswith("D") else 1
        given = graph.specs[node.inputs[0]].shape[-axes:]
        told = graph.static(node.inputs[1]) if real else given
        if told is None:
            return None
        sizes: list[Any] = [None if size is None else int(size) for size in told]
        half = (sizes[-1] or 0) // 2 + 1
        if native(node, sizes) or (not open_sizes and None in [*given, *sizes]):
            return None

        def transformed(x: Tensor, *_: Tensor) -> Tensor:
            pair: _Parts = parts(x) if x.dtype.is_complex else (x, None)
            order = range(1, axes + 1)  # from the last axis, which goes back last
            for axis in reversed(order) if back else order:
                size = sizes[-axis]
                halved = real and axis == 1
                taken = half if halved and back else size
                kept = half if halved and not back else size
                first, second = (_swapped(_first(part, taken, axis), axis) for part in pair)
                if halved and back:
                    first, second = (part * _mirrored(size, half) for part in (first, second))
                first, second = along((first, second), size, kept, back)
                pair = _swapped(first, axis), _swapped(second, axis)
            return pair[0] if real and back else tf.complex(*pair)

        return transformed

    kinds = ("FFT", "RFFT", "IFFT", "IRFFT")
    return dict.fromkeys([f"{kind}{axes}" for kind in kinds for axes in ("", "2D", "3D")], gap)


def _mirrored(size: int, half: int) -> np.ndarray:
    """Every term but the first, and the middle one of an even number, stands for two."""
    weights = np.full(half, 2.0, np.float32)
    weights[0] = 1.0
    if size % 2 == 0:
        weights[-1] = 1.0
    return weights


def _swapped(x: Tensor | None, axis: int) -> Tensor | None:
    """The axis, counted from the last, in the place of the last."""
    import tensorflow as tf

    if x is None or axis == 1:
        return x
    order = [*range(x.shape.rank)]
    order[-1], order[-axis] = order[-axis], order[-1]
    return tf.transpose(x, order)


def _first(x: Tensor | None, size: int | None, axis: int) -> Tensor | None:
    """The first elements of an axis, with zeros behind where these are too few."""
    import tensorflow as tf

    if x is None or size is None or x.shape[-axis] == size:
        return x
    place = x.shape.rank - axis
    x = x[(slice(None),) * place + (slice(0, size),)]
    pads = [[0, 0]] * x.shape.rank
    pads[place] = [0, size - tf.shape(x)[place]]
    return tf.pad(x, pads)


def by_tables(pair: _Parts, size: int, kept: int, back: bool) -> _Parts:
    """Products with sines and cosines."""
    import tensorflow as tf

    real, imaginary = pair
    turns = np.outer(np.arange(real.shape[-1]), np.arange(kept)) % size * (2 * np.pi / size)
    cosines, sines = np.cos(turns), np.sin(turns) * (1 if back else -1)
    cosines, sines = ((x / (size if back else 1)).astype(np.float32) for x in (cosines, sines))
    if imaginary is None:
        return tf.matmul(real, cosines), tf.matmul(real, sines)
    return (
        tf.matmul(real, cosines) - tf.matmul(imaginary, sines),
        tf.matmul(real, sines) + tf.matmul(imaginary, cosines),
    )


def by_operators(pair: _Parts, size: int | None, kept: int | None, back: bool) -> _Parts:
    """TensorFlow's own transforms of complex numbers."""
    import tensorflow as tf

    real, imaginary = (_first(part, size, 1) for part in pair)
    given = tf.complex(real, tf.zeros_like(real) if imaginary is None else imaginary)
    found = tf.signal.ifft(given) if back else tf.signal.fft(given)
    return tf.math.real(found)[..., :kept], tf.math.imag(found)[..., :kept]
