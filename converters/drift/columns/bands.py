"""Values of a sample by size: errors of those that are small beside others show nowhere else."""

import numpy as np

from tfmp.converters.drift import Along, Histogram, Slices

# Bands of sizes, each of a factor of 4: the first one ends at a quarter of the sample's root mean
# square, and the last one holds all that is smaller, zeros among it.
BANDS = 6

# So many places of a channel say what is small there.
_FEWEST_PLACES = 16

# A value is large if it is about the root mean square, or larger: in each row there is one.
_LARGE = 0.9

# Correct rounding is off by so much at most, as a share of a value.
_ROUNDING = 2.0**-11


def measure_bands(
    one: np.ndarray, other: np.ndarray, either_sign: bool
) -> tuple[Slices, Histogram]:
    """Sums by sample and band of sizes, and how many values each band holds.

    Args:
        one: values of the reference, of shape (samples, channels, places).
        other: those of the candidate.
        either_sign: whether samples whose values have both signs are measured, too.

    Returns:
        Bands of samples whose values have one sign, then those of all others, whose channels have
        bands of their own; as `Places.bands` and `Places.counts` say.
    """
    samples, channels, places = one.shape
    whole, gone = one.reshape(samples, -1), other.reshape(samples, -1)
    one_sign = (whole.min(axis=1) >= 0) | (whole.max(axis=1) <= 0)
    either = ~one_sign if either_sign and places >= _FEWEST_PLACES else np.zeros_like(one_sign)
    counts = np.zeros(2 * BANDS, np.int64)
    if not (one_sign.any() or either.any()):
        nothing = Along(np.zeros((3, 1, 2 * BANDS)), np.zeros((4, 2 * BANDS)))
        return Slices.summed(nothing), tuple(counts.tolist())
    sums = np.zeros((3, samples, 2 * BANDS))
    if one_sign.any():
        error, square, found, _ = _by_band(whole[one_sign], gone[one_sign])
        sums[0, one_sign, :BANDS], sums[1, one_sign, :BANDS] = error, square
        counts[:BANDS] = found.sum(axis=0)
    if either.any():
        rows = (values[either].reshape(-1, places) for values in (one, other))
        error, square, found, large = _by_band(*rows)
        usual = found * large[:, None]
        sums[:, either, BANDS:] = (
            np.stack([error, square, usual]).reshape(3, -1, channels, BANDS).sum(axis=2)
        )
        counts[BANDS:] = found.sum(axis=0)
    return Slices.summed(Along(sums, np.zeros((4, 2 * BANDS)))), tuple(counts.tolist())


def _by_band(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, ...]:
    """Squared errors, squares and counts of each row in each band, and its usual squared error.

    The first three are of shape (rows, bands). The last is the mean of large values, or what
    rounding may be off by there.
    """
    rows, places = one.shape
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        square, error = one * one, np.square(other - one)
        size = np.sqrt(square.sum(axis=1, keepdims=True) / places)
        ratio = np.where(size > 0, np.abs(one) / size, 0.0)
    _, exponent = np.frexp(ratio)
    band = np.where(ratio > 0, np.clip(-exponent // 2, 0, BANDS - 1), BANDS - 1)
    slots = (band + np.arange(rows)[:, None] * BANDS).ravel()
    errors, squares = (
        np.bincount(slots, values.ravel(), rows * BANDS).reshape(rows, BANDS)
        for values in (error, square)
    )
    counts = np.bincount(slots, minlength=rows * BANDS).reshape(rows, BANDS)
    large = ratio >= _LARGE
    usual, most = (np.where(large, values, 0.0).sum(axis=1) for values in (error, square))
    usual = np.maximum(usual, _ROUNDING**2 * most) / np.maximum(1, np.count_nonzero(large, axis=1))
    return errors, squares, counts, usual
