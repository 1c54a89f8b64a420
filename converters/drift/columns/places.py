"""A few places of each output: how values differ between samples, within one, and by their size.

A column knows how its values vary, but not whether they vary over samples or over the places of
one. An image that is the same for everybody varies from pixel to pixel, and a forecast that is a
flat line varies from town to town. So some places are followed through all samples, and the mean
of each sample with them.
"""

from dataclasses import dataclass, field

import numpy as np

from tfmp.converters.drift import (
    MOST_SLICES,
    Common,
    Histogram,
    Slices,
    banded_by_slot,
)
from tfmp.converters.drift.columns.bands import measure_bands
from tfmp.converters.drift.columns.ceilings import measure_ceilings
from tfmp.converters.drift.columns.grid import even
from tfmp.converters.drift.columns.lines import beside_means

# Places that are followed; all of them where there are no more.
MOST_PLACES = 256

# Channels with places of their own; of more, places are taken wherever they lie.
_MOST_CHANNELS = 16

# A sample is off by itself if its L2 error is a larger share of its L2 norm: the default limit of
# `DriftBudget.sample_rel_l2`.
OFF = 0.1

# Levels of absolute size, each of a factor of 4: the first one ends at 2**-28 and holds all below,
# zeros among it.
LEVELS, _LOWEST = 24, -28

# Columns with levels, and channels of outputs with more axes. Past that these are hidden features:
# nobody reads small values of one of them, and levels would double the time of measuring.
_MOST_LEVELLED, _MOST_LEVELLED_CHANNELS = MOST_SLICES // LEVELS, 64


@dataclass(frozen=True)
class Places:
    """Sums over a few places of each sample; they merge exactly.

    Attributes:
        shape: shape of a sample, such as "16x16x3"; "" if batches disagreed.
        spread: a slice for each place, channel by channel, then one for the mean over the places
            of each channel, and one for the mean over all channels.
        bands: a slice for each band of sizes, of samples whose values have one sign, then one for
            each of all others, whose channels have bands of their own. There the sums of the
            reference are those of squared errors, were each value off as the largest of its channel
            and sample are. Zeros for the others of more than 64 channels, and of rows of columns
            that have levels.
        counts: number of values in each band.
        levels: a slice for each level of each channel or column, of samples where that channel's
            root mean square has this size, or where its one number has; the levels of one channel
            lie side by side. Nothing for more than 170 columns, or 64 channels of more axes.
        level_counts: number of samples in each of these.
        ceilings: a slice for each level of the distance from 1 and from 100 of each number, of rows
            of a few; see `measure_ceilings`.
        ceiling_counts: number of samples in each of these.
        lines: a slice for each point of a few lines along each axis, of what it differs from the
            mean of its line, then one for the mean of each line; see `lines_of`. Nothing for
            samples of one axis.
    """

    shape: Common = None
    spread: Slices = field(default_factory=Slices)
    bands: Slices = field(default_factory=Slices)
    counts: Histogram = ()
    levels: Slices = field(default_factory=Slices)
    level_counts: Histogram = ()
    ceilings: Slices = field(default_factory=Slices)
    ceiling_counts: Histogram = ()
    lines: Slices = field(default_factory=Slices)

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
            self.ceilings.without(part.ceilings),
            _less(self.ceiling_counts, part.ceiling_counts),
            self.lines.without(part.lines),
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

    @property
    def indices(self) -> tuple[np.ndarray, ...]:
        """Where the places of a channel are: their index on each axis of a sample."""
        grid = self.sizes[:-1] if self.channels == self.sizes[-1] else self.sizes
        return tuple(np.unravel_index(even(grid, MOST_PLACES // self.channels), grid))


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
    one, other = _finite(_chosen(reference), _chosen(candidate))
    spread, lines = _spread(reference, candidate, one, other)
    samples = len(one)
    columns = reference.shape[-1] if reference.ndim > 1 else 1
    many = columns > (_MOST_LEVELLED if reference.ndim == 2 else _MOST_LEVELLED_CHANNELS)
    bands, counts = measure_bands(one, other, many if reference.ndim == 2 else not many)
    if many:
        return Places(shape, spread, bands, counts, lines=lines)
    if reference.ndim > 2 and columns > _MOST_CHANNELS:
        one, other = _finite(_few_of_each(reference), _few_of_each(candidate))
    levels, level_counts = _levels(
        one.reshape(samples * columns, -1), other.reshape(samples * columns, -1), columns
    )
    ceilings, ceiling_counts = measure_ceilings(reference, candidate)
    return Places(
        *(shape, spread, bands, counts, levels, level_counts, ceilings, ceiling_counts),
        lines=lines,
    )


def _spread(
    reference: np.ndarray, candidate: np.ndarray, one: np.ndarray, other: np.ndarray
) -> list[Slices]:
    """Sums of places and their means, and of lines."""
    sides, lines = (_with_means(one), _with_means(other)), beside_means(reference, candidate)
    if not lines.size:
        return [Slices.of(*sides, -1), Slices()]
    both = [np.concatenate(each, axis=1) for each in zip(sides, lines, strict=True)]
    return Slices.of_parts(both[0], both[1], sides[0].shape[1])


def _finite(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with zeros where either is not finite."""
    finite = np.isfinite(one) & np.isfinite(other)
    return (one, other) if finite.all() else (np.where(finite, one, 0), np.where(finite, other, 0))


def _chosen(values: np.ndarray) -> np.ndarray:
    """Values of the chosen places: (samples, channels, places), float64."""
    samples = len(values)
    channels = _channels(values.shape[-1]) if values.ndim > 2 else 1
    rows = values.reshape(samples, -1, channels)
    most = MOST_PLACES // channels
    if rows.shape[1] > most:
        grid = values.shape[1:-1] if channels == values.shape[-1] else values.shape[1:]
        rows = rows.take(even(grid, most), axis=1)
    return np.ascontiguousarray(np.moveaxis(rows, 1, 2), np.float64)


def _few_of_each(values: np.ndarray) -> np.ndarray:
    """Values of a few places of each of many channels: (samples, channels, places), float64."""
    samples, *grid, channels = values.shape
    few = even(tuple(grid), max(1, MOST_PLACES // channels))
    rows = values.reshape(samples, -1, channels).take(few, axis=1)
    return np.ascontiguousarray(np.moveaxis(rows, 1, 2), np.float64)


def _with_means(values: np.ndarray) -> np.ndarray:
    """Each place, then the means of channels and, where there are several, their mean."""
    samples, channels, places = values.shape
    # Of rows that lie in one piece NumPy adds the terms in the same order, however many there are.
    means = (values.reshape(-1, places).sum(axis=1) / places).reshape(samples, channels)
    found = [values.reshape(samples, -1), means]
    if channels > 1:
        found.append(means.sum(axis=1, keepdims=True) / channels)
    return np.concatenate(found, axis=1)


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
    slots, count = np.arange(rows) % columns * LEVELS + level, columns * LEVELS
    with np.errstate(over="ignore", under="ignore"):
        sums = banded_by_slot(np.stack([gap * gap, size * size, size]), slots, count)
    counts = np.bincount(slots, minlength=count)
    return Slices(sums, np.zeros((4, count))), tuple(counts.tolist())


def level_ends() -> np.ndarray:
    """The sizes at which levels end."""
    return 2.0 ** (_LOWEST + 2 * np.arange(LEVELS) + 1)
