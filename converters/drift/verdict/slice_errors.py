"""The error of each channel or column, and which of these errors no candidate could help."""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import MOST_SLICES, Kind, OutputDrift, Slices
from tfmp.converters.drift.verdict.variation import (
    CORRECT,
    FEW_ROUNDINGS,
    ONE_NUMBER,
    VARIATION,
    live_samples,
)
from tfmp.shared.numerics import ulp

# Errors up to twice the typical one are noise that the model adds everywhere, so nothing is lost by
# itself; it takes so many slices to say what is typical.
EVERYWHERE, _TYPICAL_OF = 2.0, 8

# A slice that varies by a smaller share of its size is a constant.
CONSTANT = 1e-5

# A slice smaller than this share of the largest one, and than FP16's smallest numbers, is float32's
# own rounding noise.
_NOISE, _SMALLEST = 1e-6, 1e-6

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

# Numbers up to 1 that are larger are as good as 1.
_SURE = 0.99

# A channel of a feature map is a sum over terms of the size of the typical channel, which FP16
# rounds to about this share of it. That much is excused where the channel still says something.
_ROUNDING, _SPEAKING = 2.0**-10, 0.5


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
    """

    errors: np.ndarray
    tolerated: np.ndarray
    rounding: np.ndarray
    offset: np.ndarray
    noise: np.ndarray


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
    tolerated = (size < _NOISE * size.max(initial=0.0)) & (size < _SMALLEST)
    if totals.unit and output.task.kind is Kind.MULTILABEL and not is_guess(output):
        tolerated |= size < _NEGLIGIBLE
    noise = np.zeros_like(tolerated)
    if totals.values > totals.samples * slices.count or output.task.kind is Kind.RECONSTRUCTION:
        tolerated |= size < _SURE_NOISE * typical
        noise |= size < _NOISE * typical
        speaking = relative < _SPEAKING if output.task.kind is not Kind.RECONSTRUCTION else True
        tolerated |= (error < _ROUNDING * typical) & speaking
    spacing = ulp(np.maximum(size, np.finfo(np.float64).tiny))
    rounding = (error <= CORRECT * spacing) & (scale < size)
    offset = (error <= FEW_ROUNDINGS * spacing) & (deviation < ONE_NUMBER * spacing)
    rounding |= offset
    if np.abs(slices.edges[:2]).max(initial=0.0) <= 1:  # a sigmoid or tanh that is sure
        tolerated |= offset & (size > _SURE)
    if totals.unit and output.task.kind in (Kind.BINARY, Kind.MULTILABEL) and not is_guess(output):
        tolerated |= rounding
    right = error[(relative <= _SPEAKING / 5) & (size > 0)]  # silence has no noise
    if len(error) >= _TYPICAL_OF and len(right) >= len(error) / 10:
        noise |= error <= EVERYWHERE * float(np.median(right))
    if output.task.kind is Kind.MULTILABEL and not is_guess(output):
        tolerated |= noise & (deviation < _STEADY * deviation.max(initial=0.0))
    said = slices.edges[3] - slices.edges[2]
    dead = varies & (said < _DEAD * (high - low))
    excused = noise & varies & ~tolerated & (relative > _SPEAKING / 5)
    shrunk = excused.sum() >= _NO_CHANCE and (said < _NARROWER * (high - low))[excused].all()
    rare = size < _RARE**0.5 * (high - low)
    drowned = noise & (relative > _SPEAKING / 5) & (rare | ~dead)
    if len(error) >= _FEATURES and np.count_nonzero(drowned) <= _SOME * len(error):
        tolerated |= drowned
    noise &= ~(dead | (excused & shrunk))
    return SliceErrors(relative, tolerated, rounding, offset, noise)


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
    return output.known is None and output.task.kind in (Kind.BINARY, Kind.MULTILABEL)
