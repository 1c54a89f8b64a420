"""Gradients in the loss-scale optimizer: scaled, checked for being finite, and added up."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import backend, ops

from tfmp.shared.backend import Tensor, current_backend
from tfmp.shared.numerics import FLOAT16

# The largest magnitudes that are zero, in the lowest two binades of FP16, and in the next two.
_ZERO, _LOWEST, _NEXT = np.nextafter(
    np.array([0, 4, 16], "float32") * FLOAT16.smallest_subnormal, 0, dtype="float32"
)

_LARGEST = np.finfo("float32").max

# Gradients of up to so many values are copied into one matrix, with rows of this length.
_SMALL, _ROW = 2**16, 1024


def rescale(grad: Tensor, scale: Tensor) -> Tensor:
    """The gradient times `scale`; a sparse one stays sparse."""
    return current_backend().with_rows(grad, lambda values: ops.multiply(values, scale))


def not_finite_as_nan(grad: Tensor) -> Tensor:
    """The gradient with NaN in the place of infinities, which clipping would make finite."""

    def changed(values: Tensor) -> Tensor:
        return ops.where(ops.isfinite(_real(values)), values, float("nan"))

    return current_backend().with_rows(grad, changed)


def all_finite(grad: Tensor) -> Tensor:
    """Whether all values of a gradient are finite; of a sparse one only its rows are read."""
    return ops.all(ops.isfinite(_real(current_backend().stored(grad))))


def sum_is_finite(grads: Sequence[Tensor | None]) -> Tensor:
    """False where a value is not finite, or where finite ones are so large that their sum is not.

    XLA has sums in its libraries, and compiles a program for each gradient to look at its values.
    """
    dense = [_real(current_backend().stored(one)) for one in grads if one is not None]
    return ops.isfinite(sum(ops.sum(ops.cast(one, "float32")) for one in dense))


def _real(values: Tensor) -> Tensor:
    """The values, and for complex ones their magnitudes: operations of Keras take no others."""
    return ops.abs(values) if "complex" in backend.standardize_dtype(values.dtype) else values


class Sums(NamedTuple):
    """Sums over the values of gradients, as float32 tensors; all but `norm` have one a variable.

    Attributes:
        norm: of all gradients together, once they are unscaled.
        nonfinite: the values that are not finite.
        values: the values; 0 without a gradient.
        counts: a matrix: how many of them are not zero; how many of these are below 2**-22, in
            FP16's lowest two binades; and how many lie in the two binades above.
        largest: the largest magnitude.
    """

    norm: Tensor
    nonfinite: Tensor
    values: Tensor
    counts: Tensor
    largest: Tensor


def sums_of(grads: Sequence[Tensor | None], scale: Tensor) -> Sums:
    """The sums for a branch of a step that is mostly not taken.

    XLA compiles a program for each operation on each shape, taken or not, so small gradients are
    copied into one matrix.

    Args:
        grads: the scaled gradients, one for each variable; of sparse ones only their rows count.
        scale: the scale that they will be divided by.
    """
    dense = [np.zeros(0) if one is None else _real(current_backend().stored(one)) for one in grads]
    sizes = [_size(one) for one in dense]
    small = [place for place, size in enumerate(sizes) if size <= _SMALL]
    large = [place for place, size in enumerate(sizes) if size > _SMALL]
    rows = _rows([dense[place] for place in small])
    wide = [ops.cast(dense[place], "float32") for place in large]
    of_rows = ops.max(ops.abs(rows), 1)
    of_wide = [ops.max(ops.abs(one)) for one in wide]
    totals = _added(rows, scale, 1)
    of_each = [_added(one, scale, len(one.shape)) for one in wide]
    squares = ops.sum(totals[0]) + sum(one[0] for one in of_each)
    # Whose row it is. Products with it are exact where a GPU takes 11 bits of a factor.
    ends = np.cumsum([-(-int(sizes[place]) // _ROW) for place in small])[:, None]
    index = np.arange(rows.shape[0])
    is_own = ops.logical_and(index >= np.append(0, ends[:-1])[:, None], index < ends)
    counts = [ops.matmul(totals[1:], ops.transpose(ops.cast(is_own, "float32")))]
    counts += [ops.expand_dims(one[1:], 1) for one in of_each]
    largest = [ops.max(ops.where(is_own, of_rows, 0.0), 1)]
    largest += [ops.reshape(one, (1,)) for one in of_wide]
    found, most = ops.concatenate(counts, 1), ops.concatenate(largest)
    if large:
        order = np.argsort([*small, *large])
        found, most = ops.take(found, order, axis=1), ops.take(most, order)
    values = ops.cast(ops.stack([ops.size(one) for one in dense]), "float32")
    return Sums(ops.sqrt(squares), found[0], values, found[1:], most)


def _size(values: Tensor) -> float:
    """The number of values; infinite where it is unknown, as of a sparse gradient."""
    shape = tuple(values.shape)
    return math.inf if None in shape else math.prod(shape)


def _rows(small: Sequence[Tensor]) -> Tensor:
    """Gradients in one float32 matrix: each begins a row, and zeros follow it."""
    parts = [] if any(map(_size, small)) else [np.zeros(_ROW, "float32")]
    for one in small:
        size = math.prod(one.shape)
        parts += [ops.cast(ops.reshape(one, (size,)), "float32"), np.zeros(-size % _ROW, "float32")]
    return ops.reshape(ops.concatenate(parts), (-1, _ROW))


def _added(values: Tensor, scale: Tensor, axes: int) -> Tensor:
    """Over the last axes: squares once unscaled, how many values are not finite, and counts."""
    size, shape = ops.abs(values), (-1, *[1] * len(values.shape))
    index = np.arange(5).reshape(shape)
    above = np.array([0, -1, _ZERO, _ZERO, _LOWEST], "float32").reshape(shape)
    up_to = np.array([0, _LARGEST, np.inf, _LOWEST, _NEXT], "float32").reshape(shape)
    within = ops.logical_and(ops.greater(size, above), ops.less_equal(size, up_to))
    counted = ops.cast(ops.not_equal(within, index == 1), "float32")
    terms = ops.where(index == 0, ops.square(size / scale), counted)
    return ops.sum(terms, tuple(range(-axes, 0)))
