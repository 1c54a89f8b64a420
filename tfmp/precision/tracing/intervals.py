"""Arithmetic with intervals: the range of a result, by the ranges of its operands."""

import math

import numpy as np

from tfmp.shared.numerics import FLOAT16

Interval = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)


def of_array(constant: np.ndarray) -> Interval:
    """The range of an array's numbers."""
    numbers = np.asarray(constant)
    if numbers.dtype.kind not in "biufV" or not numbers.size:
        return ANY
    numbers = numbers.astype(np.float64)
    if np.isnan(numbers).any():
        return ANY
    return float(numbers.min()), float(numbers.max())


def magnitudes(interval: Interval) -> Interval:
    """The range of absolute values."""
    low, high = interval
    return max(low, -high, 0.0), max(-low, high)


def product(one: Interval, other: Interval) -> Interval:
    """The range of a product."""
    products = [0.0 if 0.0 in (a, b) else a * b for a in one for b in other]
    return min(products), max(products)


def within(interval: Interval, largest: float) -> Interval:
    """The part of a range that is no larger than a magnitude."""
    return max(interval[0], -largest), min(interval[1], largest)


def sum_of(interval: Interval, terms: float) -> Interval:
    """The range of a sum of so many numbers, which may be infinity."""
    return product(interval, (1.0, max(terms, 1.0)))


def power_of(base: float, power: float) -> float:
    """A power; infinity where it is none that a float holds."""
    try:
        return base**power
    except (OverflowError, ZeroDivisionError):
        return math.inf


def powers(interval: Interval, power: float | None) -> Interval:
    """The range of a power, or of a power that is not an integer where it is a number."""
    low, high = interval
    if power is None:
        return ANY
    if power % 1:
        low, high = max(low, 0.0), max(high, 0.0)
    if power % 2 == 0:
        low, high = magnitudes(interval)
    if power < 0 and low <= 0 <= high:
        return (0.0 if low == 0 else -math.inf), math.inf
    ends = power_of(low, power), power_of(high, power)
    return min(ends), max(ends)


def logarithms(interval: Interval, of_one_more: bool) -> Interval:
    """The range of a logarithm of numbers in FP16, or of 1 more."""
    low = interval[0] + of_one_more
    high = min(max(interval[1] + of_one_more, 0.0), FLOAT16.overflow_threshold)
    return (math.log(low) if low > 0 else -math.inf), (math.log(high) if high > 0 else 0.0)
