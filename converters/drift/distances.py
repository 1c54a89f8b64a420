"""Distances between values: sums, ranges and counts in float64, in one pass over the data.

The pass works on pieces that stay in a cache, and takes from each all sums that anybody reads.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tfmp.converters.drift.exact import fold
from tfmp.shared.numerics import FLOAT16

# Some fields of `totals.Totals`, by name.
TotalsFields: TypeAlias = dict[str, Any]

# Elements worked on at a time. A few float64 arrays of this size stay in a processor's caches, and
# calls of NumPy cost little beside them.
CHUNK = 2**17

# Longest rows that are added up at once. NumPy's `einsum` cuts longer ones at places that depend on
# the rows before them. BLAS would be faster, and may depend on threads, alignment and processor.
_LONG = 2**13

# What `numpy.einsum` does with (samples, values), by the number of factors.
_ROWS = {1: "sv->s", 2: "sv,sv->s"}

# Of the spacing of 32 at the largest FP16 value.
_HALF_SPACING = 16

_SUMS = ("error_sq", "error_abs", "reference_sq", "candidate_sq")


@dataclass(frozen=True)
class Distances:
    """The distances of one batch.

    Attributes:
        fields: the fields of `totals.Totals` that measure distance.
        error_sq: the squared error of each sample.
        reference_sq: the sum of the reference's squares of each sample.
    """

    fields: TotalsFields
    error_sq: np.ndarray
    reference_sq: np.ndarray


def distances_of(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """The fields of `totals.Totals` that measure distance; see `measure_distances`."""
    return measure_distances(reference, candidate).fields


def measure_distances(reference: np.ndarray, candidate: np.ndarray) -> Distances:
    """Measures distances.

    Values that are not finite on both sides are counted, and then count as zeros.

    Args:
        reference: floating values, batch first.
        candidate: values of the same shape.
    """
    shape = len(reference), reference.size // max(1, len(reference))
    # Overflown squares are told by infinite sums, and NaN by its counts.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _measured(reference.reshape(shape), candidate.reshape(shape))


def _measured(one: np.ndarray, other: np.ndarray) -> Distances:
    """Measures values of shape (samples, values)."""
    by_sample = np.zeros((len(_SUMS), len(one)))
    counts = dict.fromkeys(_COUNTS, 0)
    measured = one.size
    largest = 0.0
    for block in pieces(one.shape, CHUNK):
        # A sample is cut at the same places whatever batch it came in, and its pieces are added in
        # order: the same sums, bit for bit.
        expected, received, error = scratch(one[block].shape)
        np.copyto(expected, one[block])
        np.copyto(received, other[block])
        peak = _errors(expected, received, error)
        if not math.isfinite(peak):  # some value is not, or float64 cannot hold the difference
            finite = np.isfinite(expected) & np.isfinite(received)
            measured -= finite.size - int(np.count_nonzero(finite))
            for name, count in _count_nonfinite(expected, received).items():
                counts[name] += count
            expected[~finite] = received[~finite] = 0.0
            peak = _errors(expected, received, error)
        largest = max(largest, peak)
        found = _by_row([(error, error), (error,), (expected, expected), (received, received)])
        by_sample[:, block[0]] += found
        if found[2].max(initial=0.0) >= FLOAT16.max**2:  # else no value lies beyond it
            counts["saturated"] += _count_saturated(expected, received)
    sums = dict(zip(_SUMS, by_sample, strict=True))
    squares = sums["reference_sq"] + sums["candidate_sq"]
    dot = (squares - sums["error_sq"]) / 2  # as (c - r)**2 = r**2 + c**2 - 2rc
    return Distances(
        {
            **{name: fold(each.tolist()) for name, each in {**sums, "dot": dot}.items()},
            **counts,
            "max_abs": largest,
            "worst_rel_l2": _worst(sums["error_sq"], sums["reference_sq"]),
            "measured": measured,
        },
        sums["error_sq"],
        sums["reference_sq"],
    )


def pieces(shape: Sequence[int], size: int) -> Iterator[tuple[slice, ...]]:
    """Slices of at most `size` elements: whole samples, or parts of one that is larger."""
    axes = []
    for length in reversed(shape):
        step = max(1, min(length, size))
        size //= step
        axes.append([slice(start, start + step) for start in range(0, length, step)])
    return product(*reversed(axes))


_memory = threading.local()


def scratch(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Three float64 arrays of at most `CHUNK` values, the same memory each time in a thread.

    The operating system hands out new arrays of this size page by page, which takes longer than
    everything that is computed in them.
    """
    if not hasattr(_memory, "arrays"):
        _memory.arrays = np.empty((3, CHUNK))
    size = math.prod(shape)
    return [array[:size].reshape(shape) for array in _memory.arrays]


def _errors(one: np.ndarray, other: np.ndarray, error: np.ndarray) -> float:
    """Puts |other - one| into `error`; gives its largest, NaN or infinite if a value is."""
    np.subtract(other, one, out=error)
    np.abs(error, out=error)
    return float(error.max(initial=0.0))


# The arrays of which products are added up; of one array, its values.
_Factors: TypeAlias = Sequence[tuple[np.ndarray, ...]]


def _by_row(products: _Factors) -> np.ndarray:
    """Sums of products over the values of each sample: (products, samples)."""
    samples, width = products[0][0].shape
    sums = np.zeros((len(products), samples))
    for start in range(0, width, _LONG):
        part = slice(start, start + _LONG)
        for factors, out in zip(products, sums, strict=True):
            out += np.einsum(_ROWS[len(factors)], *(factor[:, part] for factor in factors))
    return sums


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


def _count_saturated(reference: np.ndarray, candidate: np.ndarray) -> int:
    """Values clamped to the largest of FP16, where the reference lies too far beyond for rounding.

    Half a spacing further begins what IEEE 754 rounds to infinity.
    """
    at_end = np.abs(candidate) == FLOAT16.max
    return int(np.count_nonzero(at_end & (np.abs(reference) >= FLOAT16.max + _HALF_SPACING)))


def _worst(error_sq: np.ndarray, reference_sq: np.ndarray) -> float:
    """Largest sqrt(error_sq / reference_sq); a sample of zeros is infinitely off or exact."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error_sq == 0, 0.0, error_sq / reference_sq)
    # Overflown squares give inf / inf: their size is unknown, so no finite claim is made.
    return float(np.sqrt(np.where(np.isnan(ratio), np.inf, ratio)).max(initial=0.0))
