"""Distances between values: sums, ranges and counts in float64."""

import math
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from tfmp.converters.drift.exact import fold
from tfmp.shared.numerics import FLOAT16

# Some fields of `totals.Totals`, by name.
TotalsFields: TypeAlias = dict[str, Any]

# Values of a sample that are added up at once, and such pieces that fit into the caches. NumPy's
# `einsum` cuts longer rows at places that depend on the rows before them. BLAS would be faster, and
# may depend on threads and processor.
_PIECE, _AT_ONCE = 2**13, 8

# Of the spacing of 32 at the largest FP16 value.
_HALF_SPACING = 16

_SUMS = ("error_sq", "reference_sq", "candidate_sq")


def measure_distances(
    reference: np.ndarray, candidate: np.ndarray
) -> tuple[TotalsFields, np.ndarray, np.ndarray]:
    """Measures distances.

    Values that are not finite on both sides are counted, and then count as zeros.

    Args:
        reference: floating values, batch first.
        candidate: values of the same shape.

    Returns:
        The fields of `totals.Totals` that measure distance, then of each sample the squared error
        and the sum of the reference's squares.
    """
    shape = len(reference), reference.size // max(1, len(reference))
    # Overflown squares are told by infinite sums, and NaN by its counts.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _measured(reference.reshape(shape), candidate.reshape(shape))


def _measured(one: np.ndarray, other: np.ndarray) -> tuple[TotalsFields, np.ndarray, np.ndarray]:
    """Measures values of shape (samples, values), some pieces at a time."""
    samples, width = one.shape
    found, counts = np.zeros((len(_SUMS), samples)), dict.fromkeys(_COUNTS, 0)
    measured, largest = 0, 0.0
    whole = width - width % _PIECE
    for left, right in pairwise(sorted({*range(0, whole, _AT_ONCE * _PIECE), whole, width})):
        shape = (-1, _PIECE) if right <= whole else (samples, right - left)
        expected, received = (
            side[:, left:right].astype(np.float64).reshape(shape) for side in (one, other)
        )
        error = np.abs(received - expected)
        finite, most = error.size, float(error.max(initial=0.0))
        if not math.isfinite(most):  # some value is not, or their difference
            known = np.isfinite(expected) & np.isfinite(received)
            finite = int(np.count_nonzero(known))
            for name, count in _count_nonfinite(expected, received).items():
                counts[name] += count
            expected[~known] = received[~known] = 0.0
            error = np.abs(received - expected)
            most = float(error.max(initial=0.0))
        measured, largest = measured + finite, max(largest, most)
        added = [np.einsum("sv,sv->s", each, each) for each in (error, expected, received)]
        if added[1].max(initial=0.0) >= FLOAT16.max**2:  # else no value lies beyond it
            counts["saturated"] += _count_saturated(expected, received)
        found += [each.reshape(samples, -1).sum(axis=1) for each in added]
    sums = dict(zip(_SUMS, found, strict=True))
    return (
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


_COUNTS = ("nonfinite", "reference_nan", "both_nan", "infinite_lost", "saturated")


def _count_nonfinite(reference: np.ndarray, candidate: np.ndarray) -> dict[str, int]:
    reference_nan, reference_infinite = np.isnan(reference), np.isinf(reference)
    candidate_nan = np.isnan(candidate)
    new = (np.isfinite(reference) & ~np.isfinite(candidate)) | (reference_infinite & candidate_nan)
    lost = reference_infinite & ~candidate_nan & (reference != candidate)
    masks = {
        "nonfinite": new,
        "reference_nan": reference_nan & ~candidate_nan,
        "both_nan": reference_nan & candidate_nan,
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
