"""Checks of a sample's axes: of each index of those between, and of what differs along each axis.

Slices follow the first axis and the last. The places that are followed tell of the others, such as
assets of (days, assets, 4). What differs along an axis may be little beside what lies between the
lines along it, such as the waves of towns that have levels of their own; lines tell of it.
"""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import COMPILED, Kind, OutputDrift
from tfmp.converters.drift.columns import POINTS, LineGroup, lines_of
from tfmp.converters.drift.verdict import (
    FEW_ROUNDINGS,
    HALF_SPACING,
    MORE,
    NO_NUMBERS,
    ONE_NUMBER,
    VARIATION,
    Check,
    Verdict,
    live_samples,
    number_beside,
)
from tfmp.shared.numerics import FLOAT16, ulp

# So many values at an index tell how large its error is.
_FEWEST = 30

# What varies by a smaller share of its size is a constant.
_CONSTANT = 1e-4

# An index that varies by less than this share of what it did is dead. Noise does not make it dead,
# but few samples may speak there: then its root mean square is that share of its range. One that is
# that share of the largest is silent.
_DEAD, _RARE, _SILENT = 0.05, 0.1, 1e-3

_KINDS = frozenset({Kind.OTHER, Kind.REGRESSION, Kind.RECONSTRUCTION})


# Samples that tell how much single points vary.
_FEWEST_SAMPLES = 10

# Lines are typical of an output if they are this share of the size of its other places at least.
# Where nothing is, as beside the blobs of heat maps, noise is larger than what differs.
_TYPICAL = 0.5

# Along so many numbers or fewer, columns may be the same one several times, such as the colours of
# a grey picture.
_COLUMNS = 8

# What differs along an axis is lost, and no noise, if candidates' points cover less than this share
# of the range that they did; or if it is another one altogether, and FP16 has this many numbers for
# its deviation.
_STILL, _CARRIED = 0.3, 10.0


def inner_axis_checks(output: OutputDrift, limit: float) -> list[Check]:
    """The checks of one output's axes; none without several, and none where nothing is wrong."""
    return [*_index_checks(output, limit), *_line_checks(output, limit)]


def _index_checks(output: OutputDrift, limit: float) -> list[Check]:
    places, samples = output.totals.places, live_samples(output)
    spread, channels = places.spread, places.channels
    if len(places.sizes) < 3 or not spread.count or output.task.kind not in _KINDS:
        return []
    each = (spread.count - channels - (channels > 1)) // channels
    kept = slice(channels * each)
    squares, totals = (sums[kept] for sums in (spread.reference_sq, spread.reference_sum))
    variance = np.maximum(squares - totals**2 / samples, 0.0)
    sums = np.stack([spread.error_sq[kept], squares, variance]).reshape(3, channels, each)
    ranges = np.stack([spread.edges[1::2, kept], spread.edges[::2, kept]])
    said = (ranges[0] - ranges[1]).reshape(2, channels, each)
    found = []
    for axis, index in enumerate(places.indices):
        if not 0 < axis < len(places.sizes) - 1 or len(index) != each:
            continue
        present, first = np.unique(index, return_inverse=True)
        order = np.argsort(first, kind="stable")
        starts = np.searchsorted(first[order], np.arange(len(present)))
        counts = np.diff([*starts, each]) * samples
        by_index = np.add.reduceat(sums[..., order], starts, axis=-1) / counts
        ratio = np.where(counts < _FEWEST, 0.0, _wrong(by_index, said[..., order], starts, limit))
        first_channel, worst = divmod(int(ratio.argmax()), ratio.shape[1])
        at = int(present[worst])
        found.append((float(ratio[first_channel, worst]), axis, at, first_channel))
    worst_ratio, axis, at, channel = max(found, default=(0.0, 0, 0, 0))
    if worst_ratio <= limit:
        return []
    where = f" in channel {channel} of {channels}" if channels > 1 else ""
    text = (
        f"output {output.name!r}: place {at} of {places.sizes[axis]:,} on axis {axis + 1}{where} "
        f"is off by {number_beside(worst_ratio, limit)} of its own size or variation, budget "
        f"{limit:.10g}, which is no noise"
    )
    return [Check("slice_rel_l2", output.name, worst_ratio, None, None, limit, Verdict.FAIL, text)]


def _wrong(by_index: np.ndarray, said: np.ndarray, starts: np.ndarray, limit: float) -> np.ndarray:
    """The error of each index relative to its own size or variation; 0 where that is noise.

    Args:
        by_index: mean squared error, square and variance, of shape (3, channels, indices).
        said: ranges of the reference and of the candidate at each place, index by index.
        starts: the first place of each index.
        limit: the error that is allowed.
    """
    error, size, deviation = np.sqrt(by_index)
    varies = deviation > _CONSTANT * size
    scale = np.where(varies, np.minimum(size, VARIATION * deviation), size)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where((error > 0) & varies, error / scale, 0.0)
    usual = np.maximum(error, HALF_SPACING * size)
    noise = np.full_like(error, np.inf)
    for channel, at in np.argwhere(relative > limit):
        larger = varies[channel] & (size[channel] > size[channel, at])
        if larger.any():
            noise[channel, at] = np.median(usual[channel, larger])
    before, after = np.maximum.reduceat(said, starts, axis=-1)
    least = np.maximum(FLOAT16.smallest_normal, _SILENT * size.max())
    dead = (after < _DEAD * before) & (deviation > ulp(np.maximum(size, least)))
    dead &= (size > _RARE * before) & (size > least)
    return np.where((error > MORE * noise) | dead, relative, 0.0)


# Of lines through neighbours, so many tell that what differs between these is lost.
_FEWEST_LINES = 4


@dataclass(frozen=True)
class _Lines:
    """What differs along some lines; numbers are root mean squares over points and samples.

    Attributes:
        along: the lines.
        ratio: the error of what differs relative to it.
        error: the error of what differs, in spacings of FP16 at the size.
        variation: what differs, likewise.
        still: whether the candidate's points hardly move any more.
    """

    along: LineGroup
    ratio: float
    error: float
    variation: float
    still: bool

    @property
    def is_faded(self) -> bool:
        """Whether the candidate has nothing any more that FP16 has numbers for."""
        return self.still and self.variation >= FEW_ROUNDINGS

    @property
    def is_lost(self) -> bool:
        """Whether no rounding and no noise made the error."""
        return self.is_faded or (self.ratio >= 1 and self.variation >= _CARRIED)


def _line_checks(output: OutputDrift, limit: float) -> list[Check]:
    """Whether what differs along an axis is right beside what lies between the lines along it."""
    sizes, found = output.totals.places.sizes, _lines(output)
    if found and found[0].along.axis is None:
        return _neighbour_checks(output, found, limit)
    short = {each: sizes[each.along.axis or 0] <= _COLUMNS for each in found}
    over = [
        each
        for each in found
        if each.ratio > limit * VARIATION
        and (not short[each] or (each.variation > ONE_NUMBER and _may_be_compared(output)))
    ]
    if not over:
        return []
    lost = [each for each in over if each.is_lost and not short[each]]
    worst = max(lost or over, key=lambda each: each.ratio)
    along, axis = worst.along, worst.along.axis or 0
    what = f"along axis {_axis_of(output, axis)}, of {sizes[axis]:,}"
    if along.channel is not None:
        what += f" in channel {along.channel} of {sizes[-1]}"
    what += ","
    advice = f". If nobody compares them, declare --task {output.name}=regression"
    return [_check(output, worst, what, limit, bool(lost), advice if short[worst] else "")]


def _neighbour_checks(output: OutputDrift, found: list[_Lines], limit: float) -> list[Check]:
    """Whether neighbours still differ, as those of several series one after the other do."""
    lost = [each for each in found if each.is_faded and each.ratio > limit * VARIATION]
    if len(lost) < max(_FEWEST_LINES, len(found) / 2):
        return []
    worst = max(lost, key=lambda each: each.ratio)
    what = f"between neighbours, {len(lost)} times of {len(found)} that are followed,"
    return [_check(output, worst, what, limit, lost=True)]


def _check(
    output: OutputDrift, worst: _Lines, what: str, limit: float, lost: bool, advice: str = ""
) -> Check:
    told = number_beside(worst.ratio, limit * VARIATION)
    text = (
        f"output {output.name!r}: what differs {what} is off by {told} of its own size, budget "
        f"{limit * VARIATION:.10g}{NO_NUMBERS if worst.error <= FEW_ROUNDINGS else ''}{advice}"
    )
    verdict = Verdict.FAIL if lost else Verdict.INCONCLUSIVE
    measured = worst.ratio / VARIATION
    return Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)


def _may_be_compared(output: OutputDrift) -> bool:
    """Whether nobody has declared that numbers are no more than numbers."""
    known = output.known
    return known is None or (known.kind is Kind.REGRESSION and known.why.startswith(COMPILED))


def _axis_of(output: OutputDrift, axis: int) -> int:
    """The axis of an output that is one of a sample's, of which channels were moved to the end."""
    order = list(range(1, len(output.totals.places.sizes) + 1))
    channels = output.task.axis % (len(order) + 1)
    return [*(each for each in order if each != channels), channels][axis]


def _lines(output: OutputDrift) -> list[_Lines]:
    """The lines that vary and are typical: together along an axis, one by one of neighbours."""
    places, samples = output.totals.places, live_samples(output)
    lines, slices = lines_of(places.sizes), places.lines
    if lines is None or output.task.kind not in _KINDS or samples < _FEWEST_SAMPLES:
        return []
    if slices.count != lines.index.size // POINTS * (POINTS + 1):
        return []
    variance = np.maximum(slices.reference_sq - slices.reference_sum**2 / samples, 0.0)
    low, high, least, most = slices.edges
    sums = np.stack([slices.error_sq, slices.reference_sq, variance, high - low, most - least])
    sums = sums.reshape(len(sums), POINTS + 1, -1)
    size = sums[1, :POINTS].sum(axis=0) + POINTS * sums[1, POINTS]
    sums = np.stack([*sums[:, :POINTS].sum(axis=1), size])
    found, first = [], 0
    for along in lines.groups:
        part = sums[:, first : first + along.lines]
        first += along.lines
        apart = part.T if along.axis is None else [part.sum(axis=1)]
        count = samples * POINTS * part.shape[1] / len(apart)
        least_size = max(FLOAT16.smallest_normal, _typical(output, along))
        found += [each for each in (_line(along, one, count, least_size) for one in apart) if each]
    return found


def _line(along: LineGroup, sums: np.ndarray, count: float, least: float) -> _Lines | None:
    """Lines by their sums; None if they do not vary, or are smaller than that.

    Args:
        along: the lines.
        sums: of squared errors, squares and variance of what differs, of ranges of the reference
            and of the candidate, and of squares of the values.
        count: number of values.
        least: root mean square of the smallest lines that are looked at.
    """
    error, _, variation, size = np.sqrt(sums[[0, 1, 2, 5]] / count)
    if size < least or variation <= _CONSTANT * size:
        return None
    spacing = float(ulp(np.array([size]))[0])
    return _Lines(
        along,
        float(error / variation),
        float(error) / spacing,
        float(variation) / spacing,
        bool(sums[4] < _STILL * sums[3]),
    )


def _typical(output: OutputDrift, along: LineGroup) -> float:
    """The root mean square of lines that are as large as other places of their channel, or all."""
    places = output.totals.places
    spread, channels = places.spread, places.channels
    each = (spread.count - channels - (channels > 1)) // channels
    squares = spread.reference_sq[: channels * each].reshape(channels, each)
    chosen = squares if along.channel is None else squares[along.channel]
    mean = float(chosen.sum()) / (chosen.size * live_samples(output))
    return (_SILENT if along.axis is None else _TYPICAL) * mean**0.5
