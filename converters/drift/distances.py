"""How far values are apart: sums, maxima and counts, in float64 and in pieces that fit a cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tfmp.converters.drift.exact import fold
from tfmp.numerics import FLOAT16

# Histogram of |candidate - reference| in FP16 spacings at the reference.
ULP_LABELS = (
    "none",
    "under 1/2",
    "1/2 to 1",
    *(f"{2**power} to {2 ** (power + 1)}" for power in range(10)),
    "1024 and more",
)

# Elements worked on at a time: a few float64 arrays of this size stay in a core's L2 cache.
CHUNK = 2**15

# IEEE 754 binary64: the exponent field is floor(log2(x)) + 1023 and stands above 52 fraction bits.
_EXPONENT_BIAS, _FRACTION_BITS, _EXPONENT_MASK = 1023, 52, 0x7FF

_SUMS = ("error_sq", "error_abs", "reference_sq", "candidate_sq", "dot")


def distances(reference: np.ndarray, candidate: np.ndarray) -> dict[str, Any]:
    """Fields of `totals.Totals` that measure distance.

    Args:
        reference: (samples, values), floating.
        candidate: same shape.
    """
    rows = len(reference)
    sums = {name: np.zeros(rows) for name in _SUMS}
    counts = dict.fromkeys(_COUNTS, 0)
    ulps = np.zeros(len(ULP_LABELS), np.int64)
    largest = 0.0
    for block, piece in _pieces(*reference.shape):
        one = reference[block, piece].astype(np.float64)
        other = candidate[block, piece].astype(np.float64)
        finite = np.isfinite(one) & np.isfinite(other)
        left_out = finite.size - int(np.count_nonzero(finite))
        if left_out:
            for name, count in _count_nonfinite(one, other).items():
                counts[name] += count
            one, other = np.where(finite, one, 0.0), np.where(finite, other, 0.0)
        with np.errstate(over="ignore", under="ignore"):
            error = np.abs(other - one)
            # A sample's pieces are cut at the same places whatever batch it came in, and added in
            # order: the same sums, bit for bit.
            sums["error_sq"][block] += (error * error).sum(axis=1)
            sums["error_abs"][block] += error.sum(axis=1)
            sums["reference_sq"][block] += (one * one).sum(axis=1)
            sums["candidate_sq"][block] += (other * other).sum(axis=1)
            sums["dot"][block] += (one * other).sum(axis=1)
        largest = max(largest, float(error.max(initial=0.0)))
        counts["saturated"] += _count_saturated(one, other)
        ulps += _count_spacings(error, one)
        ulps[0] -= left_out  # zeros stand in for them, and zeros do not differ
    return {
        **{name: fold(values.tolist()) for name, values in sums.items()},
        **counts,
        "max_abs": largest,
        "worst_rel_l2": _worst(sums["error_sq"], sums["reference_sq"]),
        "ulps": tuple(ulps.tolist()),
    }


def _pieces(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Slices of about `CHUNK` elements: whole samples, or parts of one that is larger."""
    step = max(1, CHUNK // max(1, columns))
    for start in range(0, rows, step):
        for begin in range(0, max(1, columns), CHUNK):
            yield slice(start, start + step), slice(begin, begin + CHUNK)


_COUNTS = ("nonfinite", "reference_nan", "reference_infinite", "infinite_lost", "saturated")


def _count_nonfinite(reference: np.ndarray, candidate: np.ndarray) -> dict[str, int]:
    reference_nan, reference_infinite = np.isnan(reference), np.isinf(reference)
    candidate_nan = np.isnan(candidate)
    new = (np.isfinite(reference) & ~np.isfinite(candidate)) | (reference_infinite & candidate_nan)
    lost = reference_infinite & ~candidate_nan & (reference != candidate)
    masks = {
        "nonfinite": new,
        "reference_nan": reference_nan,
        "reference_infinite": reference_infinite,
        "infinite_lost": lost,
    }
    return {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}


def _count_saturated(reference: np.ndarray, candidate: np.ndarray) -> int:
    """Values clamped to the largest of FP16, where the reference lies beyond it."""
    at_end = np.abs(candidate) == FLOAT16.max
    if not at_end.any():  # nearly always, and cheaper to ask
        return 0
    return int(np.count_nonzero(at_end & (np.abs(reference) > FLOAT16.max)))


def _count_spacings(error: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Histogram of error / numerics.ulp(reference) by powers of two.

    A spacing is a power of two, so dividing by it subtracts exponents: integers do.
    """
    of_error = (error.view(np.int64) >> _FRACTION_BITS) - _EXPONENT_BIAS
    exponent = ((reference.view(np.int64) >> _FRACTION_BITS) & _EXPONENT_MASK) - _EXPONENT_BIAS
    np.maximum(exponent, FLOAT16.min_exponent, out=exponent)
    np.minimum(exponent, FLOAT16.max_exponent, out=exponent)
    # floor(log2(error in spacings)) is -1 from 1/2 to 1, which is bin 2.
    index = of_error - exponent + (FLOAT16.fraction_bits + 3)
    np.maximum(index, 1, out=index)
    np.minimum(index, len(ULP_LABELS) - 1, out=index)
    index *= error != 0
    return np.bincount(index.ravel(), minlength=len(ULP_LABELS))


def _worst(error_sq: np.ndarray, reference_sq: np.ndarray) -> float:
    """Largest sqrt(error_sq / reference_sq); a sample of zeros is infinitely off or exact."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error_sq == 0, 0.0, error_sq / reference_sq)
    # Overflown squares give inf / inf: their size is unknown, so no finite claim is made.
    return float(np.sqrt(np.where(np.isnan(ratio), np.inf, ratio)).max(initial=0.0))
