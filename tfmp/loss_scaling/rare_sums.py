"""Sums for branches of a step that are mostly not taken."""

import math

from keras import ops

from tfmp.shared.backend import Tensor

# A product with ones needs a copy of the values: larger ones are summed without.
_SMALL = 2**16


def rarely_summed(values: Tensor, axes: int) -> Tensor:
    """Sums of float32 values over the last `axes` axes, for a branch that is mostly not taken.

    On a CPU, XLA prepares memory for each reduction on every step, whatever branch is taken, but
    none for a matrix product. It makes a reduction of a product with a vector, hence two columns.
    A GPU may read the values of a product in TF32, with 11 significant bits.
    """
    shape = tuple(values.shape)[len(values.shape) - axes :]
    if not is_small(shape):
        return ops.sum(values, axis=tuple(range(-axes, 0)))
    return ops.tensordot(values, ops.ones((*shape, 2), values.dtype), axes=axes)[..., 0]


def rarely_all(flags: Tensor) -> Tensor:
    """`ops.all`, for such a branch."""
    return rarely_summed(ops.cast(ops.logical_not(flags), "float32"), len(flags.shape)) == 0


def is_small(shape: tuple[int | None, ...]) -> bool:
    """Whether a copy of an array of this shape costs no memory to speak of."""
    sizes = [size for size in shape if size is not None]
    return len(sizes) == len(shape) and math.prod(sizes) <= _SMALL
