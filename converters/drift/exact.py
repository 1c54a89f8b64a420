"""Numbers that merge exactly: any split of the data gives the same report, bit for bit.

Counts, maxima and flags do by themselves. A running float sum depends on the order of its terms.
Here a sum is kept as an expansion: floats whose exact total is the exact sum. `fold` brings any
list of floats to the one expansion that its total has, so equal totals are equal tuples, however
the terms were split and ordered.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import chain
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
# that an array of them stays below 128 KiB: for more, the operating system is asked each time.
_TOGETHER = 15 * 2**10

# IEEE 754 binary64 read as whole numbers: the exponent lies above 52 bits of the fraction. With two
# added to it, all but its last three bits are the band, of which number 128 is band 0 of `Bands`.
# The lowest band takes all below, as float64 holds no larger factor.
_EXPONENT, _SHIFT = 0x7FF << 52, 2 << 52
_BAND_BITS, _BAND_MASK = 55, 0x1FF << 55
_LOWEST, _ZERO, _HIGHEST = 4, 128, 256
# The bits of a float64 that makes whole numbers of a band's values: these less the band's own.
_SCALE = (1023 + _BITS + _BAND * _ZERO) << 52


def banded(values: np.ndarray) -> Bands:
    """Sums of float64 values over the samples, by band.

    Args:
        values: of shape (kinds, samples, places). What is less than 2**-1022 counts as 0.

    Returns:
        Sums of shape (kinds, places).
    """
    kinds, samples, places = values.shape
    # Few places at a time rather than few samples: a chunk has a table of bands by places.
    most = max(1, min(samples, _TOGETHER))
    step = max(1, _TOGETHER // max(1, kinds * most))
    chunks = []
    for first in range(0, samples, most):
        for start in range(0, places, step):
            part = slice(start, start + step)
            low, table = _banded(chosen := values[:, first : first + most, part])
            chunks.append((part, low, table.reshape(-1, kinds, chosen.shape[2])))
    lowest = min((low for _, low, _ in chunks), default=0)
    highest = max((low + len(table) for _, low, table in chunks), default=0)
    sums = np.zeros((highest - lowest, kinds, places), np.int64)
    for part, low, table in chunks:
        sums[low - lowest : low - lowest + len(table), :, part] += table
    used = np.flatnonzero(sums.any(axis=(1, 2))).tolist()
    return {lowest + place: sums[place] for place in used}


def banded_by_slot(values: np.ndarray, slots: np.ndarray, count: int) -> Bands:
    """Sums of float64 values over those rows that share a slot, by band.

    Args:
        values: of shape (kinds, rows).
        slots: of each row, below `count`.
        count: number of slots.

    Returns:
        Sums of shape (kinds, slots).
    """
    kinds, rows = values.shape
    places = slots + count * np.arange(kinds)[:, None]
    sums: Bands = {}
    for first in range(0, rows, _TOGETHER):
        part = slice(first, first + _TOGETHER)
        low, table = _banded(values[:, part], places[:, part], kinds * count)
        found = {low + band: each.reshape(kinds, count) for band, each in enumerate(table)}
        sums = add_bands(sums, {band: each for band, each in found.items() if each.any()})
    return sums


def _banded(
    values: np.ndarray, slots: np.ndarray | None = None, size: int = 0
) -> tuple[int, np.ndarray]:
    """The lowest band, and the sums of all from there on, of shape (bands, slots).

    Args:
        values: of shape (kinds, samples, places) with a slot for each kind and place, or of any.
        slots: of each value, in the shape of `values`; None for kinds and places.
        size: number of slots.
    """
    if slots is None:
        kinds, _, places = values.shape
        size = kinds * places
        slots = np.arange(size).reshape(kinds, 1, places)
    values = np.ascontiguousarray(values)
    bands = values.view(np.uint64) & _EXPONENT
    bands += _SHIFT
    low, high = bands.min(), bands.max()
    if low == _SHIFT:  # zeros may go anywhere
        low = np.where(bands > low, bands, high).min()
    lowest, highest = (max(_LOWEST, int(end) >> _BAND_BITS) for end in (low, high))
    np.maximum(bands, lowest << _BAND_BITS, out=bands)
    bands &= _BAND_MASK
    whole = np.subtract(_SCALE, bands).view(np.float64)
    with np.errstate(invalid="ignore"):
        np.rint(np.multiply(values, whole, out=whole), out=whole)
    if highest == _HIGHEST:  # no finite claim is made
        whole[~np.isfinite(whole)] = 2.0 ** (_BAND + _BITS)
    width = (size - 1).bit_length()  # a slot is a band's number, and a place's below it
    bands >>= _BAND_BITS - width
    where = bands.view(np.int64)
    where += slots - (lowest << width)
    sums = np.bincount(where.ravel(), whole.ravel(), (highest - lowest + 1) << width)
    return lowest - _ZERO, sums.reshape(-1, 1 << width)[:, :size].astype(np.int64)


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


def _add_each(counts: Sequence[Histogram]) -> Histogram:
    return tuple(map(sum, zip(*filter(None, counts), strict=False)))


def _in_common(one: Common, other: Common) -> Common:
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else ""


# How the values of a field merge, by the field's type.
_RULES: dict[object, Callable[[Sequence[Any]], object]] = {
    int: sum,
    float: max,
    bool: all,
    Expansion: lambda parts: fold(chain.from_iterable(parts)),
    Histogram: _add_each,
    Common: lambda parts: reduce(_in_common, parts),
}

Mergeable = TypeVar("Mergeable")


def merge(*parts: Mergeable) -> Mergeable:
    """Dataclasses merged field by field, so that the result holds for the samples of all.

    Integers are counts and add up, floats are maxima, and booleans hold for all samples.
    `Expansion`, `Histogram` and `Common` merge as their comments say, dataclasses field by field,
    and anything else by its method `merged`.
    """
    kind = type(parts[0])
    merged = {
        item.name: _merge_values(item.type, [getattr(part, item.name) for part in parts])
        for item in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**merged)


def _merge_values(kind: object, parts: Sequence[Any]) -> object:
    if kind in _RULES:
        return _RULES[kind](parts)
    return merge(*parts) if is_dataclass(kind) else reduce(kind.merged, parts)  # type: ignore[attr-defined]
