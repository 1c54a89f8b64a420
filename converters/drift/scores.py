"""Metrics of class scores and probabilities: top-k and KL."""

import numpy as np

from tfmp.converters.drift.decisions import ROW_SUM_TOLERANCE
from tfmp.converters.drift.distances import TotalsFields
from tfmp.converters.drift.exact import fold
from tfmp.converters.drift.statistics import less_mean
from tfmp.shared.numerics import FLOAT16

TOP_K = 5


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

    Masked classes are left out of both.
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
    finite = np.isfinite(squares[0]) & np.isfinite(squares[1])
    return np.where(finite, squares[0], error_sq), np.where(finite, squares[1], reference_sq)


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


# Values at a time that stay in the processor's caches.
_PIECE = 2**16


def divergence(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """KL(reference || candidate) over the last axis, nats, if every row of it adds up to 1.

    Both are floored at the smallest positive FP16 value, below which FP16 has nothing to say;
    otherwise one vanished probability would make the sum infinite. Values of the candidate that
    are not finite are left out: they are counted elsewhere and fail by themselves.
    """
    classes = reference.shape[-1]
    sides = [each.reshape(-1, classes) for each in (reference, candidate)]
    least = reference.dtype.type(FLOAT16.smallest_subnormal)
    found = []
    step = max(1, _PIECE // classes)
    for start in range(0, len(sides[0]), step):
        one, other = (each[start : start + step] for each in sides)
        if (np.abs(np.einsum("rc->r", one) - 1) > ROW_SUM_TOLERANCE).any():
            return {"normalized": False}
        one, other = np.maximum(one, least), np.maximum(other, least)
        if not np.isfinite(other.max(initial=0.0)):
            other = np.where(np.isfinite(other), other, one)
        # In float32 a ratio near 1 is off by as much as its logarithm may be: in most pieces
        # these errors are of either sign, and cancel.
        found.append(
            np.einsum("rc,rc->r", one, np.log(np.divide(one, other, out=other), out=other))
        )
    rows = np.concatenate(found)
    by_sample = rows.reshape(len(reference), -1).sum(axis=1, dtype=np.float64)
    return {"normalized": True, "kl": fold(by_sample.tolist()), "distributions": len(rows)}


def top_k(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """How many of the reference's best classes the candidate has, too, of (samples, classes)."""
    if reference.ndim != 2 or reference.shape[1] <= TOP_K:
        return {}
    best = _best(reference)
    # A tie at the candidate's k-th place counts as inside: which of them is cut is arbitrary.
    last = np.take_along_axis(candidate, _best(candidate), axis=1)
    bar = np.fmin.reduce(last, axis=1, keepdims=True)
    hits = np.take_along_axis(candidate, best, axis=1) >= bar
    return {"top_k_hits": int(np.count_nonzero(hits)), "top_k_slots": best.size}


def _best(values: np.ndarray) -> np.ndarray:
    """Columns of the largest values of each row."""
    return np.argpartition(values, -TOP_K, axis=1)[:, -TOP_K:]
