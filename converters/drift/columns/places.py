"""A few places of each output: how values differ between samples, within one, and by their size.

A column knows how its values vary, but not whether they vary over samples or over the places of
one. An image that is the same for everybody varies from pixel to pixel, and a forecast that is a
flat line varies from town to town. So some places are followed through all samples, and the mean
of each sample with them.
"""

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tfmp.converters.drift import Along, Common, Histogram, Slices

# Places that are followed; all of them where there are no more.
MOST_PLACES = 256

# Channels with places of their own; of more, places are taken wherever they lie.
_MOST_CHANNELS = 16

# Bands of sizes, each of a factor of 4: the first one ends at a quarter of the sample's root mean
# square, and the last one holds all that is smaller, zeros among it.
BANDS = 6

# A sample is off by itself if its L2 error is a larger share of its L2 norm: the default limit of
# `DriftBudget.sample_rel_l2`.
OFF = 0.1

# Levels of absolute size, each of a factor of 4: the first one ends at 2**-28 and holds all below,
# zeros among it.
LEVELS, _LOWEST = 24, -28

# Steps of this share of the whole spread places evenly however many they are (Weyl 1916).
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Places:
    """Sums over a few places of each sample; they merge exactly.

    Attributes:
        shape: shape of a sample, such as "16x16x3"; "" if batches disagreed.
        spread: a slice for each place, channel by channel, then one for the mean over the places
            of each channel, and one for the mean over all channels.
        bands: a slice for each band of sizes, of samples whose values have one sign. The square of
            a sample's entry is the sum over the band.
        counts: number of values in each band.
        levels: a slice for each level of each channel or column, of samples where that channel's
            root mean square has this size, or where its one number has; the levels of one channel
            lie side by side. Nothing for more channels than have places of their own.
        level_counts: number of samples in each of these.
    """

    shape: Common = None
    spread: Slices = field(default_factory=Slices)
    bands: Slices = field(default_factory=Slices)
    counts: Histogram = ()
    levels: Slices = field(default_factory=Slices)
    level_counts: Histogram = ()

    def without(self, part: "Places") -> "Places":
        """The sums without those of some of the samples."""
        if self.shape != part.shape:
            return self
        return Places(
            self.shape,
            self.spread.without(part.spread),
            self.bands.without(part.bands),
            _less(self.counts, part.counts),
            self.levels.without(part.levels),
            _less(self.level_counts, part.level_counts),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a sample; () if it is unknown."""
        parts = (self.shape or "").split("x")
        return tuple(map(int, parts)) if all(map(str.isdecimal, parts)) else ()

    @property
    def channels(self) -> int:
        """The number of channels with places of their own."""
        return _channels(self.sizes[-1]) if len(self.sizes) > 1 else 1


def _less(counts: Histogram, part: Histogram) -> Histogram:
    return tuple(count - less for count, less in zip(counts, part, strict=False))


@dataclass(frozen=True)
class Off:
    """Sums of those samples that are off by more than `OFF` of their own size; they merge exactly.

    Where these are few they are judged by themselves, and everything else without them.

    Attributes:
        samples: their number.
        values: number of their elements.
        slices: as in `Totals`.
        planes: likewise.
        extents: likewise.
        contrasts: likewise.
        places: likewise.
    """

    samples: int = 0
    values: int = 0
    slices: Slices = field(default_factory=Slices)
    planes: Slices = field(default_factory=Slices)
    extents: Slices = field(default_factory=Slices)
    contrasts: Slices = field(default_factory=Slices)
    places: Places = field(default_factory=Places)


def _channels(size: int) -> int:
    return size if size <= _MOST_CHANNELS else 1


def measure_places(reference: np.ndarray, candidate: np.ndarray, axis: int) -> Places:
    """Measures one batch.

    Args:
        reference: floating values, batch first.
        candidate: values of the same shape.
        axis: axis of the channels.
    """
    if reference.size == 0 or reference.ndim == 0:
        return Places()
    if reference.ndim > 2 and axis not in (-1, reference.ndim - 1):
        reference, candidate = (np.moveaxis(values, axis, -1) for values in (reference, candidate))
    shape = "x".join(map(str, reference.shape[1:])) or "1"
    one, other = (_chosen(values) for values in (reference, candidate))
    finite = np.isfinite(one) & np.isfinite(other)
    if not finite.all():
        one, other = np.where(finite, one, 0), np.where(finite, other, 0)
    spread = Slices.of(_with_means(one), _with_means(other), -1)
    samples = len(one)
    bands, counts = _bands(one.reshape(samples, -1), other.reshape(samples, -1))
    columns = reference.shape[-1] if reference.ndim > 1 else 1
    if columns > _MOST_CHANNELS:
        return Places(shape, spread, bands, counts)
    levels, level_counts = _levels(
        one.reshape(samples * columns, -1), other.reshape(samples * columns, -1), columns
    )
    return Places(shape, spread, bands, counts, levels, level_counts)


def _chosen(values: np.ndarray) -> np.ndarray:
    """Values of the chosen places: (samples, channels, places), float64."""
    samples = len(values)
    channels = _channels(values.shape[-1]) if values.ndim > 2 else 1
    rows = values.reshape(samples, -1, channels)
    size = rows.shape[1]
    most = MOST_PLACES // channels
    if size > most:
        rows = rows.take(_even(size, most), axis=1)
    return np.ascontiguousarray(np.moveaxis(rows, 1, 2), np.float64)


@cache
def _even(size: int, most: int) -> np.ndarray:
    """Places, spread evenly over all."""
    return np.unique((np.arange(most) * _GOLDEN % 1 * size).astype(np.intp))


def _with_means(values: np.ndarray) -> np.ndarray:
    """Each place, then the means of channels and, where there are several, their mean."""
    samples, channels, places = values.shape
    # Of rows that lie in one piece NumPy adds the terms in the same order, however many there are.
    means = (values.reshape(-1, places).sum(axis=1) / places).reshape(samples, channels)
    found = [values.reshape(samples, -1), means]
    if channels > 1:
        found.append(means.sum(axis=1, keepdims=True) / channels)
    return np.concatenate(found, axis=1)


def _bands(one: np.ndarray, other: np.ndarray) -> tuple[Slices, Histogram]:
    """Sums by sample and band of sizes, and how many values each band holds."""
    one_sign = (one.min(axis=1) >= 0) | (one.max(axis=1) <= 0)
    if not one_sign.any():
        nothing = Along(np.zeros((3, len(one), BANDS)), np.zeros((4, BANDS)))
        return Slices.summed(nothing), (0,) * BANDS
    size, gap = np.zeros((2, len(one), BANDS))
    size[one_sign], gap[one_sign], counts = _by_band(one[one_sign], other[one_sign])
    return Slices.of(size, size + gap, -1), tuple(counts.tolist())


def _by_band(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Size and error of each sample in each band, of shape (samples, bands), and their counts."""
    samples, places = one.shape
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        square, error = one * one, np.square(other - one)
        size = np.sqrt(square.sum(axis=1, keepdims=True) / places)
        ratio = np.where(size > 0, np.abs(one) / size, 0.0)
    _, exponent = np.frexp(ratio)
    band = np.where(ratio > 0, np.clip(-exponent // 2, 0, BANDS - 1), BANDS - 1)
    slots = (band + np.arange(samples)[:, None] * BANDS).ravel()
    norms, gaps = (
        np.sqrt(np.bincount(slots, values.ravel(), samples * BANDS)).reshape(samples, BANDS)
        for values in (square, error)
    )
    return norms, gaps, np.bincount(band.ravel(), minlength=BANDS)


def _levels(one: np.ndarray, other: np.ndarray, columns: int) -> tuple[Slices, Histogram]:
    """Sums by sample, column and level, of rows that hold the places of one column of a sample."""
    rows, places = one.shape
    with np.errstate(over="ignore", under="ignore"):
        size, gap = (
            np.sqrt((values * values).sum(axis=1) / places) for values in (one, other - one)
        )
    _, exponent = np.frexp(size)
    level = np.where(size > 0, np.clip((exponent - _LOWEST) // 2, 0, LEVELS - 1), 0)
    if places == 1:  # then the mean of a level tells how its values vary
        size, gap = one[:, 0], other[:, 0] - one[:, 0]
    index = np.arange(rows)
    slots = index % columns * LEVELS + level
    table = np.zeros((2, rows // columns, columns * LEVELS))
    table[0, index // columns, slots] = size
    table[1, index // columns, slots] = size + gap
    counts = np.bincount(slots, minlength=columns * LEVELS)
    return Slices.of(table[0], table[1], -1), tuple(counts.tolist())


def level_ends() -> np.ndarray:
    """The sizes at which levels end."""
    return 2.0 ** (_LOWEST + 2 * np.arange(LEVELS) + 1)
