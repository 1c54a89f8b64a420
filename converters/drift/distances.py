"""Distances between values: sums, maxima and counts, in float64 and in pieces that fit a cache."""

import math
import sys
import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from tfmp.converters.drift.exact import fold
from tfmp.shared.numerics import FLOAT16

# Some fields of `totals.Totals`, by name.
TotalsFields: TypeAlias = dict[str, Any]

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

# IEEE 754 binary64: the exponent field is floor(log2(x)) + 1023, and lies in the highest of four
# 16-bit words between the sign and 4 bits of the fraction.
_EXPONENT_BIAS, _FRACTION_BITS, _EXPONENT_MASK = 1023, 4, 0x7FF
_FLOAT16_EXPONENTS = (
    FLOAT16.min_exponent + _EXPONENT_BIAS,
    FLOAT16.max_exponent + _EXPONENT_BIAS,
)
# Of the spacing of 32 at the largest FP16 value.
_HALF_SPACING = 16

_WORDS, _TOP_WORD = 4, 3 if sys.byteorder == "little" else 0

_SUMS = ("error_sq", "error_abs", "reference_sq", "candidate_sq", "dot")


def distances_of(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """The fields of `totals.Totals` that measure distance; see `distances_by_sample`."""
    return distances_by_sample(reference, candidate)[0]


def distances_by_sample(
    reference: np.ndarray, candidate: np.ndarray
) -> tuple[TotalsFields, np.ndarray, np.ndarray]:
    """Measures distances.

    Args:
        reference: floating values of shape (samples, values).
        candidate: values of the same shape.

    Returns:
        The fields of `totals.Totals` that measure distance; the squared error of each sample; and
        the sum of the reference's squares of each sample.
    """
    rows = len(reference)
    sums = {name: np.zeros(rows) for name in _SUMS}
    counts = dict.fromkeys(_COUNTS, 0)
    ulps = np.zeros(len(ULP_LABELS), np.int64)
    largest = 0.0
    for block, piece in pieces(rows, reference.shape[1], CHUNK):
        one, other, error, product = scratch(reference[block, piece].shape)
        np.copyto(one, reference[block, piece])
        np.copyto(other, candidate[block, piece])
        peak = _errors(one, other, error)
        left_out = 0
        if not math.isfinite(peak):  # some value is not, or float64 cannot hold the difference
            finite = np.isfinite(one) & np.isfinite(other)
            left_out = finite.size - int(np.count_nonzero(finite))
            for name, count in _count_nonfinite(one, other).items():
                counts[name] += count
            one[~finite] = other[~finite] = 0.0
            peak = _errors(one, other, error)

        def dot(left: np.ndarray, right: np.ndarray, out: np.ndarray = product) -> np.ndarray:
            with np.errstate(over="ignore", under="ignore"):
                return np.multiply(left, right, out=out).sum(axis=1)

        # A sample's pieces are cut at the same places whatever batch it came in, and added in
        # order: the same sums, bit for bit.
        reference_sq = dot(one, one)
        sums["error_sq"][block] += dot(error, error)
        sums["error_abs"][block] += error.sum(axis=1)
        sums["reference_sq"][block] += reference_sq
        sums["candidate_sq"][block] += dot(other, other)
        sums["dot"][block] += dot(one, other)
        largest = max(largest, peak)
        if reference_sq.max(initial=0.0) >= FLOAT16.max**2:  # else no value lies beyond it
            counts["saturated"] += _count_saturated(one, other)
        ulps += _count_spacings(error, one)
        ulps[0] -= left_out  # zeros stand in for them, and zeros do not differ
    fields = {
        **{name: fold(values.tolist()) for name, values in sums.items()},
        **counts,
        "max_abs": largest,
        "worst_rel_l2": _worst(sums["error_sq"], sums["reference_sq"]),
        "ulps": tuple(ulps.tolist()),
    }
    return fields, sums["error_sq"], sums["reference_sq"]


def pieces(rows: int, columns: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Slices of about `size` elements: whole samples, or parts of one that is larger."""
    step = max(1, size // max(1, columns))
    for start in range(0, rows, step):
        for begin in range(0, max(1, columns), size):
            yield slice(start, start + step), slice(begin, begin + size)


_COUNTS = (
    "nonfinite",
    "reference_nan",
    "both_nan",
    "reference_infinite",
    "infinite_lost",
    "saturated",
)


def _count_nonfinite(reference: np.ndarray, candidate: np.ndarray) -> dict[str, int]:
    reference_nan, reference_infinite = np.isnan(reference), np.isinf(reference)
    candidate_nan = np.isnan(candidate)
    new = (np.isfinite(reference) & ~np.isfinite(candidate)) | (reference_infinite & candidate_nan)
    lost = reference_infinite & ~candidate_nan & (reference != candidate)
    masks = {
        "nonfinite": new,
        "reference_nan": reference_nan & ~candidate_nan,
        "both_nan": reference_nan & candidate_nan,
        "reference_infinite": reference_infinite,
        "infinite_lost": lost,
    }
    return {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}


_memory = threading.local()


def scratch(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Four float64 arrays of at most `CHUNK` values, the same memory each time in a thread.

    The operating system hands out new arrays of this size page by page, which takes longer than
    everything that is computed in them.
    """
    if not hasattr(_memory, "arrays"):
        _memory.arrays = np.empty((4, CHUNK))
    size = math.prod(shape)
    return [array[:size].reshape(shape) for array in _memory.arrays]


def _errors(one: np.ndarray, other: np.ndarray, error: np.ndarray) -> float:
    """Puts |other - one| into `error`; gives its largest, NaN or infinite if a value is."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        np.subtract(other, one, out=error)
        np.abs(error, out=error)
    return float(error.max(initial=0.0))


def _count_saturated(reference: np.ndarray, candidate: np.ndarray) -> int:
    """Values clamped to the largest of FP16, where the reference lies too far beyond for rounding.

    Half a spacing further begins what IEEE 754 rounds to infinity.
    """
    at_end = np.abs(candidate) == FLOAT16.max
    return int(np.count_nonzero(at_end & (np.abs(reference) >= FLOAT16.max + _HALF_SPACING)))


def _count_spacings(error: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Histogram of error / numerics.ulp(reference) by powers of two.

    A spacing is a power of two, so dividing by it subtracts exponents: small integers do.
    """
    # floor(log2(error in spacings)) is -1 from 1/2 to 1, which is bin 2.
    index = _exponents(error)
    exponent = _exponents(reference)
    np.clip(exponent, *_FLOAT16_EXPONENTS, out=exponent)
    index -= exponent
    index += FLOAT16.fraction_bits + 3
    np.clip(index, 1, len(ULP_LABELS) - 1, out=index)
    counts = _count_nibbles(index.astype(np.uint8))[: len(ULP_LABELS)]
    # Without an error they were counted as the smallest; as integers they are counted fastest.
    equal = error.size - int(np.count_nonzero(error.view(np.int64)))
    counts[0], counts[1] = equal, counts[1] - equal
    return counts


def _exponents(values: np.ndarray) -> np.ndarray:
    """Biased exponents of float64 values, as one row of int16."""
    words = np.ascontiguousarray(values).view(np.int16).reshape(-1, _WORDS)
    exponents = words[:, _TOP_WORD] >> _FRACTION_BITS
    exponents &= _EXPONENT_MASK
    return exponents


def _count_nibbles(values: np.ndarray) -> np.ndarray:
    """How often each of 0 to 15 occurs in a row of bytes, two of them counted at a time."""
    half = len(values) // 2
    pairs = values[:half] | values[half : 2 * half] << 4
    table = np.bincount(pairs, minlength=256).reshape(16, 16)
    counts = table.sum(axis=0) + table.sum(axis=1)
    for value in values[2 * half :]:
        counts[value] += 1
    return counts


def _worst(error_sq: np.ndarray, reference_sq: np.ndarray) -> float:
    """Largest sqrt(error_sq / reference_sq); a sample of zeros is infinitely off or exact."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error_sq == 0, 0.0, error_sq / reference_sq)
    # Overflown squares give inf / inf: their size is unknown, so no finite claim is made.
    return float(np.sqrt(np.where(np.isnan(ratio), np.inf, ratio)).max(initial=0.0))
