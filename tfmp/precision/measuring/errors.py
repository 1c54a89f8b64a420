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
    axes = tuple(range(wide.ndim - 1)) or None
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
    """For each array the error in its worst channel, in standard deviations that count at least.

    That is the root mean square of the difference, or infinity where only `found` is not finite. An
    exact array that is not finite throughout has no deviation: it has no error where both are.
    """
    return [_error(*each) for each in zip(found, exact, least, strict=True)]


def _error(found: Array, exact: Array, least: float) -> float:
    finite = np.isfinite(exact)
    if not np.isfinite(found[finite]).all():
        return np.inf
    if not exact.size or not finite.all():
        return 0.0
    axes = tuple(range(exact.ndim - 1)) or None
    error = np.sqrt(np.mean(np.square(found - exact, dtype="float64"), axis=axes))
    own = deviations(exact)
    least = max(least, _SMALL_CHANNEL * float(np.sqrt(np.mean(np.square(own)))), 1e-300)
    return float(np.max(error / np.maximum(own, least), initial=0.0))


def largest_finite(values: Array) -> float:
    """The largest magnitude but for infinities."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def rounded(values: Sequence[Array]) -> list[Array]:
    """The values as FP16 has them."""
    with np.errstate(over="ignore"):
        return [value.astype("float16").astype("float32") for value in values]
