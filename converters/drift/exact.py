"""Numbers that merge exactly: any split of the data gives the same report, bit for bit.

Counts, maxima and flags do by themselves. A running float sum depends on the order of its terms.
Here a sum is kept as an expansion: floats whose exact total is the exact sum. `fold` brings any
list of floats to the one expansion that its total has, so equal totals are equal tuples, however
the terms were split and ordered.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

# The exact total as nearest float, nearest float of the rest, and so on: 0 is the empty tuple.
Expansion = tuple[float, ...]

# Counts by bin.
Histogram = tuple[int, ...]

# What all samples have in common; None before the first, "" once two differ.
Common = str | None

# What a sum becomes when a term is not finite or the total leaves float64: no finite claim is made.
_INFINITE: Expansion = (math.inf,)


def fold(terms: Iterable[float]) -> Expansion:
    """The canonical expansion of the exact sum of `terms`.

    `math.fsum` rounds an exact sum once (Shewchuk 1997, "Adaptive Precision Floating-Point
    Arithmetic"); subtracting this part and summing again gives the next part, until nothing is
    left. A non-finite term or a total beyond float64 gives `(inf,)`.
    """
    rest = [float(term) for term in terms]
    parts: list[float] = []
    try:
        while (part := math.fsum(rest)) != 0.0:
            if not math.isfinite(part):
                return _INFINITE
            parts.append(part)
            rest.append(-part)
    except (OverflowError, ValueError):  # fsum: a partial sum overflowed, or inf - inf
        return _INFINITE
    return tuple(parts)


def total(expansion: Expansion) -> float:
    """The exact sum, rounded once."""
    return expansion[0] if expansion else 0.0


# Sums over samples, by band of exponents: whole multiples of a power of two, and so exact whatever
# the order. The bands are 2**8 wide and keep 30 bits below: 2**24 samples have room in 64 bits.
Bands = dict[int, np.ndarray]
_BAND, _BITS = 8, 30

# Values whose bands are found together: few enough that float64 adds their multiples exactly, and
# that the operating system is not asked for new memory each time.
_TOGETHER = 2**13

# By the exponent field of IEEE 754 binary64: the band, and what makes whole numbers of its values.
# The lowest band takes all below, as float64 holds no larger factor.
_FRACTION_BITS, _EXPONENT_MASK = 52, 0x7FF
_BAND_OF = np.maximum((np.arange(_EXPONENT_MASK + 1) - 1022) // _BAND, -124)
_SCALE_OF = np.ldexp(1.0, _BITS - _BAND * _BAND_OF)
_LOWEST, _HIGHEST = int(_BAND_OF[0]), int(_BAND_OF[-1])


def banded(values: np.ndarray) -> Bands:
    """Sums of float64 values over the samples, by band.

    Args:
        values: of shape (kinds, samples, places). What is less than 2**-1022 counts as 0.

    Returns:
        Sums of shape (kinds, places).
    """
    kinds, samples, places = values.shape
    step = max(1, _TOGETHER // max(1, kinds * places))
    found: Bands = {}
    for start in range(0, samples, step):
        for band, sums in _banded(values[:, start : start + step]):
            found[band] = found.get(band, 0) + sums
    return found


def _banded(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Bands, and the sums in them."""
    kinds, _, places = values.shape
    exponents = np.ascontiguousarray(values).view(np.int64) >> _FRACTION_BITS
    exponents &= _EXPONENT_MASK
    with np.errstate(invalid="ignore"):
        whole = np.rint(values * _SCALE_OF[exponents])
    used = np.flatnonzero(np.bincount(exponents.ravel()))
    low = int(_BAND_OF[used[1] if used[0] == 0 and len(used) > 1 else used[0]])
    high = int(_BAND_OF[used[-1]])
    if high == _HIGHEST:  # no finite claim is made
        whole[~np.isfinite(whole)] = 2.0 ** (_BAND + _BITS)
    size = kinds * places
    slots = (np.maximum(_BAND_OF - low, 0) * size)[exponents]  # zeros may go anywhere
    slots += np.arange(size).reshape(kinds, 1, places)
    sums = np.bincount(slots.ravel(), whole.ravel(), (high - low + 1) * size)
    for band, each in enumerate(sums.reshape(-1, kinds, places), low):
        if each.any():
            yield band, each.astype(np.int64)


def add_bands(one: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray]) -> Bands:
    """The sums of both."""
    return {
        band: one.get(band, 0) + other.get(band, 0)  # type: ignore[misc]
        for band in {*one, *other}
    }


def total_of_bands(bands: Mapping[int, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The sums in float64; zeros of `shape` without bands."""
    total = np.zeros(shape)
    for band, sums in sorted(bands.items()):
        with np.errstate(over="ignore"):
            total += np.ldexp(sums.astype(np.float64), _BAND * band - _BITS)
    return total


def _add_each(one: Histogram, other: Histogram) -> Histogram:
    return tuple(map(operator.add, one, other)) if one and other else one or other


def _in_common(one: Common, other: Common) -> Common:
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else ""


# How two values of a field merge, by the field's type.
_RULES: dict[object, Callable[..., object]] = {
    int: operator.add,
    float: max,
    bool: operator.and_,
    Expansion: lambda one, other: fold((*one, *other)),
    Histogram: _add_each,
    Common: _in_common,
}

Mergeable = TypeVar("Mergeable")


def merge(one: Mergeable, other: Mergeable) -> Mergeable:
    """Two dataclasses merged field by field, so that the result holds for the samples of both.

    Integers are counts and add up, floats are maxima, and booleans hold for all samples.
    `Expansion`, `Histogram` and `Common` merge as their comments say, dataclasses field by field,
    and anything else by its method `merged`.
    """
    kind = type(one)
    merged = {
        item.name: _merge_values(item.type, getattr(one, item.name), getattr(other, item.name))
        for item in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**merged)


def _merge_values(kind: object, one: Any, other: Any) -> object:
    if kind in _RULES:
        return _RULES[kind](one, other)
    return merge(one, other) if is_dataclass(kind) else one.merged(other)
