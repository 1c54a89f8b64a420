"""Checks of variation: what tells samples or places of one sample apart.

An offset hides all of these from a distance: a picture that is the same for everybody, a forecast
that became a flat line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import LEVELS, DriftBudget, Kind, OutputDrift, Places
from tfmp.converters.drift.verdict.check import Check, Verdict, number_beside
from tfmp.shared.numerics import ulp

# What a slice says is its variation: an error of 0.1 of three standard deviations is 0.3 of one.
VARIATION = 3.0

# Root-mean-square error of correct rounding, in spacings: they are uniform between -1/2 and 1/2.
CORRECT = 0.35

# Numbers that deviate by less than this share of a spacing are one or two numbers in FP16, and
# whether they were meant to say anything is unclear. A network's last steps round them, too.
ONE_NUMBER, FEW_ROUNDINGS = 0.25, 1.0

# Of numbers up to 1, those above the first may be what others leave of a length of 1, and these say
# it better. A sum, a root and a quotient round it by so many spacings.
NEAR_1, UNIT_ROUNDINGS = 0.9, 2.0

# What varies by a smaller share of its size is a constant.
CONSTANT = 1e-5

# Variation below this share of an output's size is one number in FP16, and float32 adds to it.
_CONSTANT = 1e-4

# Probabilities that vary by less decide nothing.
_STEADY = 1e-3

# A channel that is smaller than this share of the largest one, and than FP16's smallest numbers,
# is float32's own rounding noise.
_NOISE = 1e-6

# Places that it takes to have variation beside their mean.
_FEWEST_PLACES = 3

# And samples to tell how much single places vary: of hundreds, some hardly do among a few.
_FEWEST_SAMPLES = 10

# Errors up to twice the typical one are noise that the model adds everywhere, so nothing is lost by
# itself.
EVERYWHERE = 2.0

# A place is wrong by itself if it is off by this many times as much as others, of which each is off
# by half a spacing at least.
MORE, HALF_SPACING = 3.0, 2.0**-11

# Kinds whose samples have a level of their own, beside which places differ.
_LEVELS = frozenset({Kind.OTHER, Kind.REGRESSION, Kind.RECONSTRUCTION})

# Kinds that decide at one half, or at zero.
DECIDING = frozenset({Kind.BINARY, Kind.MULTILABEL})


@dataclass(frozen=True)
class _Part:
    """Something that varies, by sums over samples and places.

    Attributes:
        what: words for it.
        error: sum of squared errors.
        variation: sum of squares about the mean.
        size: sum of squares.
        values: number of values.
    """

    what: str
    error: float
    variation: float
    size: float
    values: float

    @property
    def ratio(self) -> float:
        """The error relative to the variation."""
        return float(np.sqrt(self.error / self.variation))

    @property
    def spacings(self) -> tuple[float, float]:
        """The error and the variation of a value, in spacings of FP16 at the size."""
        error, variation, size = np.sqrt([self.error, self.variation, self.size]) / self.values**0.5
        step = float(ulp(np.array([size]))[0])
        return float(error) / step, float(variation) / step


def variation_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's variation."""
    limit = budget.slice_rel_l2
    if limit is None or output.samples < 2:
        return []
    parts = [] if output.totals.unit and not _varies(output) else list(_parts(output))
    checks = [_worst(output, parts, limit)] if parts else []
    checks += [*_one_score(output, limit), *_most_of_columns(output, limit)]
    checks += _single_places(output, limit) if parts else []
    return checks


def variation_ratio(output: OutputDrift) -> float:
    """The error of all places that are followed, relative to what tells samples apart there."""
    places = output.totals.places
    if not places.spread.count or output.samples < 2:
        return 0.0
    variation = float(_variances(places, live_samples(output)).sum())
    error = float(places.spread.error_sq.sum())
    return (error / variation) ** 0.5 if variation > 0 else 0.0


def _varies(output: OutputDrift) -> bool:
    """Whether probabilities vary enough to decide anything."""
    places = output.totals.places
    spread = _variances(places, output.samples)
    mean = float(spread.sum()) / (len(spread) or 1) / output.samples
    return output.task.kind not in DECIDING or mean > _STEADY**2


def live_samples(output: OutputDrift) -> float:
    """The number of samples that are not zero throughout: those are a word for "nothing here"."""
    rows = output.totals.rows
    counts = rows.counts
    if not len(rows) or counts.sum() != output.samples:
        return float(output.samples)
    live = int(counts[rows.values[:, 1] > 0].sum())
    return float(live or output.samples)


def _variances(places: Places, samples: float) -> np.ndarray:
    """The sum of squares about its mean of each place."""
    spread = places.spread
    return np.maximum(spread.reference_sq - spread.reference_sum**2 / samples, 0.0)


def _parts(output: OutputDrift) -> Iterator[_Part]:
    places, kind = output.totals.places, output.task.kind
    spread, channels = places.spread, places.channels
    if not spread.count or kind is Kind.EMBEDDING:
        return
    samples = live_samples(output)
    several = channels > 1
    each = (spread.count - channels - several) // channels
    sums = np.stack([spread.error_sq, _variances(places, samples), spread.reference_sq])
    by_channel = sums[:, : channels * each].reshape(3, channels, each).sum(axis=2)
    means = sums[:, channels * each :]
    largest = by_channel[2].max(initial=0.0)
    for channel in range(channels):
        error, variation, size = by_channel[:, channel].tolist()
        values = samples * each
        if size < _NOISE**2 * min(largest, values):
            continue
        where = f" in channel {channel} of {channels}" if several else ""
        if len(places.sizes) > 1 or output.totals.slices.count < places.sizes[0]:
            yield _Part(f"what differs between samples{where}", error, variation, size, values)
        if kind in _LEVELS and each >= _FEWEST_PLACES:
            yield _Part(
                f"what differs within a sample{where}, beside its mean,",
                max(0.0, error - each * means[0, channel]),
                max(0.0, variation - each * means[1, channel]),
                size,
                values,
            )
    if several and kind in _LEVELS:
        error, variation, size = by_channel.sum(axis=1).tolist()
        error, variation = (
            max(0.0, total - channels * each * mean)
            for total, mean in zip((error, variation), means[:2, -1].tolist(), strict=True)
        )
        yield _Part(
            "what differs within a sample, beside its mean,",
            *(error, variation, size, samples * channels * each),
        )


def _worst(output: OutputDrift, parts: list[_Part], limit: float) -> Check:
    """The check of whatever varies and is off by most of it."""
    varying = [part for part in parts if part.variation > _CONSTANT**2 * part.size]
    found = [(part, _verdict(output, part, limit)) for part in varying]
    rank = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    if not found:
        text = f"output {output.name!r}: its values do not vary beside their size"
        return Check("slice_rel_l2", output.name, 0.0, None, None, limit, Verdict.PASS, text)
    part, verdict = min(found, key=lambda each: (rank.index(each[1]), -each[0].ratio))
    told = number_beside(part.ratio, limit * VARIATION)
    text = (
        f"output {output.name!r}: {part.what} is off by {told} of its own size, budget "
        f"{limit * VARIATION:.10g}"
    )
    if verdict is not Verdict.PASS and _is_rounding(part):
        text += NO_NUMBERS
    measured = part.ratio / VARIATION
    return Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)


# Advice where an offset takes all digits of FP16.
NO_NUMBERS = (
    ". FP16 has no numbers between those that it gives: beside its offset the variation is small. "
    "Leave the offset out, or keep the output in FP32 (keep_fp32)"
)


def _is_rounding(part: _Part) -> bool:
    """Whether the error is that of rounding beside an offset."""
    error, variation = part.spacings
    return error <= (FEW_ROUNDINGS if variation < ONE_NUMBER else CORRECT)


def _verdict(output: OutputDrift, part: _Part, limit: float) -> Verdict:
    if part.ratio <= VARIATION * limit:
        return Verdict.PASS
    error, variation = part.spacings
    unclear = variation < ONE_NUMBER and error <= FEW_ROUNDINGS
    if error <= UNIT_ROUNDINGS and (part.size / part.values) ** 0.5 > NEAR_1:
        unclear |= bool(np.abs(output.totals.slices.edges[:2]).max(initial=0.0) <= 1 + CONSTANT)
    return Verdict.INCONCLUSIVE if unclear else Verdict.FAIL


def _single_places(output: OutputDrift, limit: float) -> list[Check]:
    """Whether a place is wrong in one channel, which neither the channel nor the place shows."""
    places = output.totals.places
    spread, channels = places.spread, places.channels
    each = (spread.count - channels - (channels > 1)) // channels
    samples = live_samples(output)
    if len(places.sizes) < 2 or each < _FEWEST_PLACES or samples < _FEWEST_SAMPLES:
        return []
    kept = slice(channels * each)
    error, size = (
        np.sqrt(sums[kept].reshape(channels, each) / samples)
        for sums in (spread.error_sq, spread.reference_sq)
    )
    variation = np.sqrt(_variances(places, samples)[kept].reshape(channels, each) / samples)
    usual = np.maximum(
        np.median(error, axis=1, keepdims=True),
        HALF_SPACING * np.sqrt((size**2).mean(axis=1, keepdims=True)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error > 0, error / variation, 0.0)
    varies = variation > _CONSTANT * size
    wrong, dead = varies & (ratio > VARIATION * limit), _dead_numbers(output, size, kept)
    wrong &= (error > MORE * usual) | dead
    if not wrong.any():
        return []
    at = int(np.where(wrong, ratio, -1.0).argmax())
    where = f"a place in channel {at // each} of {channels}" if channels > 1 else "a place"
    told = number_beside(ratio.flat[at], limit * VARIATION)
    times = f"by {error.flat[at] / usual.flat[at // each]:.3g} times as much as others"
    text = (
        f"output {output.name!r}: {where} is off by "
        f"{told} of what tells samples apart there, budget {limit * VARIATION:.10g}, "
        f"and {'is the same for all samples' if dead.flat[at] else times}; "
        f"{np.count_nonzero(wrong):,} of {wrong.size:,} places that are followed are over it"
    )
    measured = float(ratio.flat[at]) / VARIATION
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, Verdict.FAIL, text)]


# A matrix of so few numbers holds a quantity in each. One that varies by less than this share of
# what it did is dead, and the error of the others excuses it only if it is float32's own noise, or
# speaks on hardly any sample: then its root mean square is that share of its range.
_FEW_NUMBERS, _DEAD, _SMALLEST, _RARE = 32, 0.05, 1e-6, 0.1


def _dead_numbers(output: OutputDrift, size: np.ndarray, kept: slice) -> np.ndarray:
    """Which numbers of a small matrix are the same for all samples, and were not."""
    spread = output.totals.places.spread
    if output.totals.values != output.samples * size.size or size.size > _FEW_NUMBERS:
        return np.zeros(size.shape, bool)
    low, high, least, most = spread.edges[:, kept].reshape(4, *size.shape)
    said = high - low
    return (most - least < _DEAD * said) & (size > np.maximum(_SMALLEST, _RARE * said))


# A column says something on this share of the samples at least, wherever the others lie; and so
# many levels of sizes may hold them. More columns are features, of which noise may drown what most
# samples say.
_MOST, _WINDOWS, _MOST_COLUMNS = 0.5, (1, 2), 16

# What varies by less than this share of its mean square has an offset.
_OFFSET = 0.25


def _most_of_columns(output: OutputDrift, limit: float) -> list[Check]:
    """Whether most numbers of a column still vary: others of another size hide no variation."""
    places, totals = output.totals.places, output.totals
    counts = np.array(places.level_counts, float).reshape(-1, LEVELS)
    several = 0 < len(counts) <= _MOST_COLUMNS and places.levels.count == counts.size
    if not several or totals.values != output.samples * len(counts):
        return []
    if totals.unit and output.task.kind in DECIDING:
        return []
    levels = places.levels
    sums = np.stack([counts.ravel(), levels.error_sq, levels.reference_sq, levels.reference_sum])
    sums = sums.reshape(4, *counts.shape)
    found = []
    for width in _WINDOWS:
        for column, first in np.ndindex(len(counts), LEVELS - width + 1):
            inside = sums[:, column, first : first + width].sum(axis=1)
            count, error, size, total = inside.tolist()
            others = max(float(sums[0, column].sum()) - count, 0.0)
            if count < max(_FEWEST_SAMPLES, _MOST * output.samples) or not others:
                continue
            variation = size - total**2 / count
            larger = sums[:, column, first + width :].sum(axis=1)
            usual = larger[1] / larger[0] if larger[0] else 0.0
            part = _Part(f"most of column {column}", error, variation, size, count)
            varies = _CONSTANT**2 * size < variation < _OFFSET * size
            if varies and part.ratio > VARIATION * limit and error > usual * count:
                found.append(part)
    steady = np.abs(totals.slices.edges[:2]).max(initial=0.0) <= 1  # a sigmoid that is sure
    found = [part for part in found if not (steady and _is_rounding(part))]
    return [_worst(output, found, limit)] if found else []


# Of a normal distribution, the standard deviation over the median distance from the median.
_TO_DEVIATION = 1.4826

# Values within this many standard deviations of the median are the bulk.
_BULK = 5.0


def _one_score(output: OutputDrift, limit: float) -> list[Check]:
    """Whether scores still rank, one for each sample: few that lie elsewhere hide no variation."""
    rows, totals = output.totals.rows, output.totals
    if not len(rows) or totals.values != totals.samples or not totals.slices.count:
        return []
    if totals.unit and output.task.kind in DECIDING:
        return []
    errors, values = rows.values[:, 0], rows.values[:, 1]
    middle = float(np.median(values))
    near = _TO_DEVIATION * float(np.median(np.abs(values - middle)))
    bulk = np.abs(values - middle) <= _BULK * near
    size, variation = (
        float((values[bulk] ** 2).sum()),
        float(((values[bulk] - values[bulk].mean()) ** 2).sum()),
    )
    if not variation > _CONSTANT**2 * size:
        return []
    part = _Part("", float((errors[bulk] ** 2).sum()), variation, size, float(bulk.sum()))
    verdict = _verdict(output, part, limit)
    larger = values > values[bulk].max()
    noise = np.count_nonzero(larger) >= _FEWEST_SAMPLES and (
        part.error <= EVERYWHERE**2 * float((errors[larger] ** 2).mean()) * part.values
    )
    told = number_beside(part.ratio, limit * VARIATION)
    text = (
        f"output {output.name!r}: scores are off by {told} of what tells most of them apart, "
        f"budget {limit * VARIATION:.10g}"
    )
    known = output.known
    ranks = known is None or known.kind in DECIDING
    if verdict is Verdict.PASS and ranks and part.ratio > limit:
        verdict = Verdict.INCONCLUSIVE
        text += (
            f". If they rank samples, about {np.arctan(part.ratio) / np.pi:.0%} of all pairs "
            f"change places. Keep the output in FP32 (keep_fp32), or declare --task {output.name}="
            "regression if they rank nothing"
        )
    elif verdict is not Verdict.PASS and _is_rounding(part):
        text += NO_NUMBERS
    elif verdict is Verdict.FAIL and noise:
        verdict = Verdict.INCONCLUSIVE
        text += ". The error is no larger than that of larger scores, so it may be their noise"
    measured = part.ratio / VARIATION
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]
