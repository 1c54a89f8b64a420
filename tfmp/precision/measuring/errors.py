"""Errors of FP16 in units that training feels: the standard deviation of each channel."""

from collections.abc import Sequence

import numpy as np

Array = np.ndarray

# Channels whose deviation is less than this share of that of all matter less.
_SMALL_CHANNEL = 0.1


def deviations(values: Array) -> Array:
    """The standard deviation of each channel between samples, so that offsets hide no error.

    What is the same for all samples, such as positions, has its deviation over the positions.
    """
    wide = values.astype("float64")
    if not wide.ndim:
        return np.abs(wide)
    axes = tuple(range(wide.ndim - 1)) if wide.ndim > 1 else None
    largest = np.abs(wide).max(initial=0.0)
    found = np.zeros(())
    for mean in (wide.mean(0), wide.mean(axes, keepdims=True), 0.0):
        found = np.sqrt(np.mean(np.square(wide - mean), axis=axes))
        if np.max(found, initial=0.0) > 1e-6 * largest:
            break
    return found


def deviation(values: Array) -> float:
    """One number for all channels."""
    if not values.size or not np.isfinite(values).all():
        return 0.0
    return float(np.sqrt(np.mean(np.square(deviations(values)))))


def errors(found: Sequence[Array], exact: Sequence[Array], least: Sequence[float]) -> list[float]:
    """For each array the error in its worst channel, in standard deviations.

    Args:
        found: in 16 bits.
        exact: in float32. An array that is not finite throughout has no deviation: only
            whether `found` is finite where it is can be said.
        least: standard deviations that count at least.

    Returns:
        The root mean square of the difference; infinity where only `found` is not finite.
    """
    if len(found) != len(exact):
        raise ValueError(f"expected {len(exact)} results, received {len(found)}")
    result = []
    for one, other, size in zip(found, exact, least, strict=True):
        finite = np.isfinite(other)
        if not np.isfinite(one[finite]).all():
            result.append(np.inf)
        elif not other.size or not finite.all():
            result.append(0.0)
        else:
            axes = tuple(range(other.ndim - 1)) if other.ndim > 1 else None
            error = np.sqrt(np.mean(np.square(one - other, dtype="float64"), axis=axes))
            own = np.maximum(deviations(other), max(size, _SMALL_CHANNEL * deviation(other)))
            shares = np.where(error > 0, error / np.maximum(own, 1e-300), 0.0)
            result.append(float(np.max(shares, initial=0.0)))
    return result


def rounded(values: Sequence[Array]) -> list[Array]:
    """The values as FP16 has them."""
    with np.errstate(over="ignore"):
        return [value.astype("float16").astype("float32") for value in values]
