"""The error of each channel or column, and which of these errors no candidate could help."""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import MOST_SLICES, Kind, OutputDrift, Slices
from tfmp.converters.drift.verdict.variation import (
    CONSTANT,
    CORRECT,
    DECIDING,
    EVERYWHERE,
    FEW_ROUNDINGS,
    NEAR_1,
    ONE_NUMBER,
    UNIT_ROUNDINGS,
    VARIATION,
    live_samples,
)
from tfmp.shared.numerics import ulp

# It takes so many slices to say which error is typical.
_TYPICAL_OF = 8

# A slice smaller than this share of the largest one, and than FP16's smallest numbers, is float32's
# own rounding noise.
_NOISE, _SMALLEST = 1e-6, 1e-6

# So many columns may have a unit each.
_UNITS = 32

# Channels below this share of the typical one are that noise; up to `_NOISE` they may be.
_SURE_NOISE = 3e-9

# A slice that varies by less than this share of what it did is dead, and no noise excuses that.
_DEAD = 0.05

# So many numbers are features of one scale, and noise drowns a share of them. One that speaks on
# less than this share of the samples may be silent.
_FEATURES, _SOME, _RARE = 64, 0.05, 0.01

# Noise widens the range of a slice as often as it narrows it, so this many slices that all became
# narrower have lost what they say.
_NARROWER, _NO_CHANCE = 0.75, 10

# A label whose probability varies by less than this share of others' is the same for all samples.
_STEADY = 1e-3

# Probabilities below it change no answer.
_NEGLIGIBLE = 2.0**-20

# Numbers up to 1 that are larger are as good as 1. Where an output has no others, they may be all
# that it says: then they are excused only where they decide, and only the largest error of the
# nearest number, in spacings.
_SURE, _NEAREST = 0.99, 0.5

# Vectors of so many numbers, whose squares add up to 1 within float32's own rounding.
_UNIT_LENGTHS, _EXACT = (2, 3, 4), 1e-5

# A channel of a feature map is a sum over terms of the size of the typical channel, which FP16
# rounds to about this share of it. That much is excused where the channel still says something: a
# channel of another sample is off by 1.4 of its standard deviation, a constant one by 1.
_ROUNDING, _SPEAKING = 2.0**-10, 0.5

# A slice off by less than this share of its own size is right.
_RIGHT = 0.1

# Errors grow with the size of right slices if, where sizes are so far apart, errors relative to it
# differ by less than this share of what the errors do, as standard deviations of logarithms.
_APART, _STEADIER = 8.0, 0.5


@dataclass(frozen=True)
class SliceErrors:
    """The error of each channel or column.

    Attributes:
        errors: root-mean-square error relative to the root mean square, or to three standard
            deviations if that is less: an offset hides no variation.
        tolerated: whether the slice is noise of float32 in the reference, or FP16 can hold it no
            better.
        rounding: whether the error is that of correct rounding, so that the offset is to blame.
        offset: whether, besides, FP16 has but one or two numbers for all that the slice says.
        noise: whether the error is no larger than that of the other slices.
        hidden: whether an offset makes the slice larger than three standard deviations.
    """

    errors: np.ndarray
    tolerated: np.ndarray
    rounding: np.ndarray
    offset: np.ndarray
    noise: np.ndarray
    hidden: np.ndarray


def slice_errors(output: OutputDrift, slices: Slices) -> SliceErrors:
    """The errors of channels or columns, relative to their own size or variation."""
    totals = output.totals
    each = values_of_each(output, slices)
    error, size = (np.sqrt(sums / each) for sums in (slices.error_sq, slices.reference_sq))
    deviation = deviation_of(output, slices)
    low, high = slices.edges[0], slices.edges[1]
    largest = np.maximum(np.abs(low), np.abs(high))
    varies = (high - low > CONSTANT * largest) & (deviation > CONSTANT * size)
    scale = np.where(varies, np.minimum(size, VARIATION * deviation), size)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error == 0, 0.0, error / scale)
    relative = np.where(np.isnan(relative), np.inf, relative)
    typical = float(np.median(size[size > 0])) if (size > 0).any() else 0.0
    small = (size < _NOISE * size.max(initial=0.0)) & (size < _SMALLEST)
    # Noise of float32 has either sign and a mean of zero. Numbers up to 1 have one unit, as have
    # those of which some end at zero.
    one_sign = (low > 0) | (high < 0) | (np.abs(slices.reference_sum / each) > deviation)
    own_unit = small & one_sign & (len(size) <= _UNITS)
    own_unit &= (largest.max(initial=0.0) > 1) & (low != 0).all()
    tolerated = small & ~own_unit
    answers = output.task.kind in DECIDING
    decides = totals.unit and answers and not is_guess(output)
    if decides:
        tolerated |= size < _NEGLIGIBLE
    noise = np.zeros_like(tolerated)
    if totals.values > totals.samples * slices.count or output.task.kind is Kind.RECONSTRUCTION:
        tolerated |= size < _SURE_NOISE * typical
        noise |= size < _NOISE * typical
        speaking = error < _SPEAKING * np.where(varies, deviation, size)
        tolerated |= (error < _ROUNDING * typical) & speaking
    spacing = ulp(np.maximum(size, np.finfo(np.float64).tiny))
    rounding = (error <= CORRECT * spacing) & (scale < size)
    offset = (error <= FEW_ROUNDINGS * spacing) & (deviation < ONE_NUMBER * spacing)
    rounding |= offset
    sure = size > _SURE
    if np.abs(slices.edges[:2]).max(initial=0.0) <= 1 and not sure.all():  # a sigmoid or tanh
        tolerated |= offset & sure
    tolerated |= (error <= UNIT_ROUNDINGS * spacing) & sure & _of_length_1(output, slices, size)
    near_1 = (size > NEAR_1) & (largest <= 1 + CONSTANT)
    offset |= (error <= UNIT_ROUNDINGS * spacing) & near_1 & (scale < size)
    if decides:
        tolerated |= rounding & ((error <= _NEAREST * spacing) | ~sure.all())
    right = (relative <= _RIGHT) & (size > 0)  # silence has no noise
    if len(error) >= _TYPICAL_OF and right.sum() >= len(error) / 10:
        noise |= error <= EVERYWHERE * _usual_error(error[right], size[right], answers)
    if answers and not is_guess(output):
        tolerated |= noise & (deviation < _STEADY * deviation.max(initial=0.0))
    said = slices.edges[3] - slices.edges[2]
    dead = varies & (said < _DEAD * (high - low))
    excused = noise & varies & ~tolerated & (relative > _RIGHT)
    shrunk = excused.sum() >= _NO_CHANCE and (said < _NARROWER * (high - low))[excused].all()
    rare = size < _RARE**0.5 * (high - low)
    drowned = noise & (relative > _RIGHT) & (rare | ~dead)
    if len(error) >= _FEATURES and np.count_nonzero(drowned) <= _SOME * len(error):
        tolerated |= drowned
    noise &= ~(dead | (excused & shrunk))
    noise |= own_unit
    return SliceErrors(relative, tolerated, rounding, offset, noise, scale < size)


def _usual_error(error: np.ndarray, size: np.ndarray, answers: bool) -> float:
    """The error that noise alone may make in any slice, given those that are right.

    Where errors grow with the size, a typical one says nothing of small slices: columns in units of
    their own. Probabilities have one unit.
    """
    some = error > 0
    if not answers and some.any() and size[some].max() > _APART * size[some].min():
        absolute = np.log(error[some])
        if np.std(absolute - np.log(size[some])) < _STEADIER * np.std(absolute):
            return float(error[some].min())
    return float(np.median(error))


def _of_length_1(output: OutputDrift, slices: Slices, size: np.ndarray) -> np.ndarray:
    """Which columns belong to a vector of length 1, such as a quaternion.

    One of its numbers that is nearly 1 says nothing that the others do not.
    """
    member = np.zeros(slices.count, bool)
    if slices.count == MOST_SLICES:  # then neighbours may share a slice
        return member
    low, high = slices.edges[:2]
    for length in _UNIT_LENGTHS:
        for first in range(slices.count - length + 1):
            part = slice(first, first + length)
            if abs(float((size[part] ** 2).sum()) - 1) <= _EXACT and min(size[part]) > 0:
                member[part] = True
    return member & ((low > 0) | (high < 0))


def values_of_each(output: OutputDrift, slices: Slices) -> np.ndarray:
    """The number of values of each slice, without samples that are zero throughout."""
    totals = output.totals
    values = totals.values * live_samples(output) / max(1, output.samples)
    sizes = totals.places.sizes
    size = slices.count
    if size == MOST_SLICES and sizes:  # then neighbours share a slice
        size = max(size, sizes[0] if slices is totals.planes else sizes[-1])
    first = np.arange(slices.count + 1) * size // slices.count
    return np.maximum(1.0, np.diff(first) * values / size)


def deviation_of(output: OutputDrift, slices: Slices) -> np.ndarray:
    """The standard deviation of each slice of the reference."""
    each = values_of_each(output, slices)
    variance = slices.reference_sq / each - (slices.reference_sum / each) ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def is_guess(output: OutputDrift) -> bool:
    """Whether an output holds probabilities or logits as far as only its values say."""
    return output.known is None and output.task.kind in DECIDING
