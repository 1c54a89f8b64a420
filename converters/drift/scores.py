"""Class scores: what a softmax and a mask take no notice of."""

import numpy as np

from tfmp.converters.drift.decisions import ROW_SUM_TOLERANCE
from tfmp.converters.drift.statistics import less_mean
from tfmp.shared.numerics import FLOAT16

# Vectors of more scores have no offset to speak of, and take too long.
_MOST_CENTRED = 2**16


def centred(
    reference: np.ndarray,
    candidate: np.ndarray,
    axis: int,
    error_sq: np.ndarray,
    reference_sq: np.ndarray,
    masked: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Squares by sample of scores without their mean, which a softmax takes no notice of.

    Masked classes are left out of both. Probabilities, which add up to 1, stay as they are.
    """
    samples = len(reference)
    if reference.ndim < 2 or not 0 < reference.size <= samples * _MOST_CENTRED:
        return error_sq, reference_sq
    known = None if masked is None else ~masked
    with np.errstate(invalid="ignore", over="ignore"):
        one = reference.astype(np.float64)
        squares = [
            np.square(less_mean(values, known, axis)).reshape(samples, -1).sum(axis=1)
            for values in (candidate - one, one)
        ]
        shares = np.abs(one.sum(axis=axis) - 1).reshape(samples, -1).max(axis=1)
    used = np.isfinite(squares[0]) & np.isfinite(squares[1]) & ~(shares <= ROW_SUM_TOLERANCE)
    return np.where(used, squares[0], error_sq), np.where(used, squares[1], reference_sq)


# A logit that is this much smaller than the largest one has a probability of 0 in any format. Masks
# lie as far below 0.
_IMPOSSIBLE = 200.0


def without_masks(
    reference: np.ndarray, candidate: np.ndarray, axis: int, low: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Scores in which classes that neither side can choose are equal, and flags of these if any.

    A mask writes -1e9 or minus infinity where FP16 has -65504, and all of them say: never. A row
    that holds nothing else has no better answer. `low` is the least number of the reference.
    """
    if reference.ndim < 2 or low >= -_IMPOSSIBLE:
        return reference, candidate, None
    with np.errstate(invalid="ignore", over="ignore"):
        best = reference.max(axis=axis, keepdims=True)
        bounds = best - np.float32(_IMPOSSIBLE)
        impossible = (reference < -_IMPOSSIBLE) & (reference < bounds) & (candidate < bounds)
        if (best < -FLOAT16.max).any():
            throughout = reference.min(axis=axis, keepdims=True) == best
            impossible |= throughout & (best < -FLOAT16.max) & (candidate <= -FLOAT16.max)
    if not impossible.any():
        return reference, candidate, None
    floor = np.broadcast_to(bounds, reference.shape)
    one, other = (np.where(impossible, floor, values) for values in (reference, candidate))
    return one, other, impossible
