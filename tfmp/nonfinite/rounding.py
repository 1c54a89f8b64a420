"""Differences between numbers that a 16-bit format rounds off.

FP16 has 11 significant bits: temperatures of 288.15 K and 288.2 K are the same number there, and so
are the ids 30001 and 30002. All values are finite then, but a model cannot learn from them.
"""

import math
from dataclasses import dataclass

import numpy as np

from tfmp.shared.numerics import FloatFormat, round_to, ulp

# The noise of rounding may have this share of a feature's variance, 1% of its standard deviation.
# Standardised numbers, images, sound and degrees Celsius have less than 1e-5 in FP16. Years with
# fractions have 3e-4 and more; days, prices, places on a map and temperatures in kelvin 1e-2.
_LOST_VARIANCE = 1e-4

# Of ids past the exact whole numbers half change and more; of most counts few are so large.
_CHANGED_SHARE = 0.1

# A feature that varies by less than this share of its size is constant, up to float32's rounding.
_CONSTANT = 2.0**-19

# Fewer values tell nothing about their variation: two may lie side by side by chance.
_FEWEST = 8

# Steps of a grid, as of 8-bit values, come again and again: so often on average.
_REPEATED = 4

# One odd feature of an embedding's hundreds is no reason.
_SHARE_OF_FEATURES = 0.01

# So many values show the spread of a batch of large images.
_MOST_VALUES = 2**20


@dataclass(frozen=True)
class RoundedOff:
    """A feature that loses differences in a 16-bit format.

    Attributes:
        feature: its index along the last axis; None for samples of single numbers.
        size: the median of its magnitudes.
        spread: its standard deviation, over all samples or, where these differ, within them.
        spacing: the distance of the format's numbers at `size`.
        is_whole: whether it holds whole numbers, which change.
    """

    feature: int | None
    size: float
    spread: float
    spacing: float
    is_whole: bool


def rounded_off(values: np.ndarray, fmt: FloatFormat) -> RoundedOff | None:
    """The feature that loses most in a format; None if too few features lose differences.

    Args:
        values: samples along the first axis, features along the last one, and places, such as
            steps of a series, between them.
        fmt: the format that the numbers are rounded to.
    """
    if not np.ndim(values) or not np.size(values):
        return None
    samples = _some(np.asarray(values, np.float64))
    if samples.ndim == 1:
        samples = samples[:, None]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = samples - round_to(samples, fmt)
        share, spread = _lost(samples, error)
        whole = _changed_whole_numbers(samples, error, fmt)
        lost = share > _LOST_VARIANCE
    if lost.any() and _is_grid(samples[..., lost], fmt):
        lost[:] = False
    lost |= whole
    if lost.sum() < max(1, _SHARE_OF_FEATURES * lost.size):
        return None
    worst = int(np.argmax(np.where(lost, np.nan_to_num(share), -1)))
    size = float(np.median(np.abs(samples[..., worst])))
    return RoundedOff(
        feature=worst if values.ndim > 1 else None,
        size=size,
        spread=float(spread[worst]),
        spacing=float(ulp(np.asarray(size), fmt)),
        is_whole=bool(whole[worst]),
    )


def _some(values: np.ndarray) -> np.ndarray:
    """The first samples of a batch, as many as are needed."""
    each = max(1, math.prod(values.shape[1:]))
    return values[: max(_FEWEST, _MOST_VALUES // each)]


def _lost(samples: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each feature the share of the error in its variance, and its standard deviation.

    The levels of series differ, and within each of them the differences may be small.
    """
    axes = tuple(range(samples.ndim - 1))
    constant = np.square(_CONSTANT * np.abs(samples).max(axes))
    share, spread = np.zeros(samples.shape[-1]), np.zeros(samples.shape[-1])
    around: list[tuple[int, ...]] = [axes, (1,)] if samples.ndim > 2 else [axes]
    for axis in around:
        free = samples[..., 0].size - samples[..., 0].mean(axis, keepdims=True).size
        variance = _variance(samples, axis)
        found = np.where(variance > constant, _variance(error, axis) / variance, 0.0)
        if free >= _FEWEST - 1:
            spread = np.where(found >= share, np.sqrt(variance), spread)
            share = np.fmax(share, found)
    return share, spread


def _variance(values: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    """The variance of each feature around its means along axes."""
    centred = values - values.mean(axis, keepdims=True)
    return np.square(centred).mean(tuple(range(values.ndim - 1)))


def _changed_whole_numbers(samples: np.ndarray, error: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """The features of whole numbers that may be ids and change; pixels and sound are none."""
    axes = tuple(range(samples.ndim - 1))
    if samples.ndim > 3 or samples[..., 0].size < _FEWEST:
        return np.zeros(samples.shape[-1], bool)
    is_whole = ((samples >= 0) & (samples == np.rint(samples))).all(axes)
    return is_whole & ((error != 0).mean(axes) >= _CHANGED_SHARE)


def _is_grid(values: np.ndarray, fmt: FloatFormat) -> bool:
    """Whether numbers are the steps of a grid, such as 8-bit values, that all stay apart."""
    steps = np.unique(values)
    return steps.size * _REPEATED <= values.size and np.unique(round_to(steps, fmt)).size == (
        steps.size
    )
