"""Differences between numbers that a 16-bit format rounds off.

FP16 has 11 significant bits: temperatures of 288.15 K and 288.2 K are the same number there. All
values are finite then, but a model cannot learn from them.
"""

import math
from dataclasses import dataclass

import numpy as np

from tfmp.shared.numerics import FloatFormat, round_to, ulp

# The noise of rounding may have this share of a feature's standard deviation. Standardised numbers,
# images, sound and degrees Celsius have less than 0.003 in FP16. Years with fractions have 0.017
# and more; days, prices, places on a map and temperatures in kelvin 0.1.
_LOST = 0.01

# A feature that varies by less than this share of its size is constant, up to float32's rounding.
_CONSTANT = 2.0**-19

# Fewer values tell nothing about their variation: two may lie side by side by chance.
_FEWEST = 8

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
    """

    feature: int | None
    size: float
    spread: float
    spacing: float


def rounded_off(values: np.ndarray, fmt: FloatFormat) -> RoundedOff | None:
    """The feature that loses most in a format; None if none loses differences.

    Args:
        values: samples along the first axis, features along the last one, and places, such as
            steps of a series, between them.
        fmt: the format that the numbers are rounded to.
    """
    if not np.ndim(values) or not np.size(values):
        return None
    samples = np.asarray(values, np.float64)
    samples = samples[: max(_FEWEST, _MOST_VALUES // max(1, math.prod(samples.shape[1:])))]
    if samples.ndim == 1:
        samples = samples[:, None]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        share, spread = _lost(samples, samples - round_to(samples, fmt))
    worst = int(np.argmax(share))
    if share[worst] <= _LOST:
        return None
    size = float(np.median(np.abs(samples[..., worst])))
    spacing = float(ulp(np.asarray(size), fmt))
    return RoundedOff(worst if np.ndim(values) > 1 else None, size, float(spread[worst]), spacing)


def _lost(samples: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each feature its standard deviation, and the share of it that the error has.

    The levels of series differ, and within each of them the differences may be small.
    """
    axes = tuple(range(samples.ndim - 1))
    constant = _CONSTANT * np.abs(samples).max(axes)
    share, spread = np.zeros(samples.shape[-1]), np.zeros(samples.shape[-1])
    around: list[tuple[int, ...]] = [axes, (1,)] if samples.ndim > 2 else [axes]
    for axis in around:
        if samples[..., 0].size - samples[..., 0].mean(axis, keepdims=True).size < _FEWEST - 1:
            continue
        own = _deviation(samples, axis)
        found = np.where(own > constant, _deviation(error, axis) / own, 0.0)
        spread = np.where(found >= share, own, spread)
        share = np.fmax(share, found)
    return share, spread


def _deviation(values: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    """The standard deviation of each feature around its means along axes."""
    centred = values - values.mean(axis, keepdims=True)
    return np.sqrt(np.square(centred).mean(tuple(range(values.ndim - 1))))
