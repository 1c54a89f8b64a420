"""Distances between values: sums, ranges and counts in float64."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tfmp.converters.drift.exact import fold
from tfmp.shared.numerics import FLOAT16

# Some fields of `totals.Totals`, by name.
TotalsFields: TypeAlias = dict[str, Any]

# Values that are worked on at a time where nothing has to be added up.
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
    """Measures values of shape (samples, values), piece by piece: new memory takes most time."""
    samples, width = one.shape
    memory = np.empty((3, min(one.size, CHUNK)))
    found, counts = np.zeros((len(_SUMS), samples)), dict.fromkeys(_COUNTS, 0)
    measured, largest = 0, 0.0
    rows = max(1, CHUNK // max(1, width))
    for top, left in product(range(0, samples, rows), range(0, width, CHUNK)):
        part = slice(top, top + rows), slice(left, left + CHUNK)
        shape = one[part].shape
        expected, received, error = (each[: math.prod(shape)].reshape(shape) for each in memory)
        expected[:], received[:] = one[part], other[part]
        np.abs(np.subtract(received, expected, out=error), out=error)
        finite = error.size
        most = float(error.max(initial=0.0))
        if not math.isfinite(most):  # some value is not, or their difference
            known = np.isfinite(expected) & np.isfinite(received)
            finite = int(np.count_nonzero(known))
            for name, count in _count_nonfinite(expected, received).items():
                counts[name] += count
            expected[~known] = received[~known] = 0.0
            np.abs(np.subtract(received, expected, out=error), out=error)
            most = float(error.max(initial=0.0))
        measured, largest = measured + finite, max(largest, most)
        added = _by_row([(error, error), (error,), (expected, expected), (received, received)])
        if added[2].max(initial=0.0) >= FLOAT16.max**2:  # else no value lies beyond it
            counts["saturated"] += _count_saturated(expected, received)
        found[:, part[0]] += added
    sums = dict(zip(_SUMS, found, strict=True))
    return Distances(
        {
            **{name: fold(each.tolist()) for name, each in sums.items()},
            **counts,
            "max_abs": largest,
            "worst_rel_l2": _worst(sums["error_sq"], sums["reference_sq"]),
            "measured": measured,
        },
        sums["error_sq"],
        sums["reference_sq"],
    )


# The arrays of which products are added up; of one array, its values.
_Factors: TypeAlias = Sequence[tuple[np.ndarray, ...]]


def _by_row(products: _Factors) -> np.ndarray:
    """Sums of products over the values of each sample: (products, samples)."""
    samples, width = products[0][0].shape
    sums = np.zeros((len(products), samples))
    long = width - width % _LONG
    for factors, out in zip(products, sums, strict=True):
        if long:
            rows = (each[:, :long].reshape(-1, _LONG) for each in factors)
            out += np.einsum(_ROWS[len(factors)], *rows).reshape(samples, -1).sum(axis=1)
        if long < width:
            out += np.einsum(_ROWS[len(factors)], *(each[:, long:] for each in factors))
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
