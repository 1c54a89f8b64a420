"""Checks of small values: noise is about as large everywhere, or grows with the values.

So an error that is larger where values are small is no noise: the near pixels of a depth map, the
small hazards that FP16 takes for zero.
"""

import numpy as np

from tfmp.converters.drift import (
    BANDS,
    LEVELS,
    DriftBudget,
    Kind,
    OutputDrift,
    level_ends,
)
from tfmp.converters.drift.verdict import (
    DECIDING,
    HALF_SPACING,
    MORE,
    Check,
    Verdict,
    is_guess,
    number_beside,
)
from tfmp.shared.numerics import FLOAT16

# What the second half of the bands holds; see `Places`.
_BAND_SUMS = ("error_sq", "reference_sq", "reference_sum")

# Numbers are small for a reason, and not by chance, where nearly all samples have one sign.
_ONE_SIGN = 0.9

# So many values tell. If they are off by less than half of their own size, that may be a steep
# function of a number with noise, such as a root.
_ENOUGH, _WRONG = 100, 0.5

# Samples that tell, and their share beside the chance to lie so near to zero: about 0.8 of the
# distance from it, in standard deviations, for a normal distribution.
_ENOUGH_SAMPLES, _CHANCE = 30, 3.0

# Of a column, what is smaller than this share of its size.
_SMALL = 0.25

# Of either sign, bands whose values are that small: of larger ones so many are by chance, and the
# last band is smaller than the error of rounding large ones.
_EITHER_SIGN = slice(2, BANDS - 1)

# Of more columns than these, the noise of a sample may be that of all others.
_FEW = 16

_UNIMPORTANT = ". If small values do not matter, set {name}.slice_rel_l2 to more than that"


def small_value_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's small values."""
    limit = budget.slice_rel_l2
    if limit is None or output.samples < 2 or output.task.kind is Kind.EMBEDDING:
        return []
    share = budget.flip_rate or 0.0
    return [
        *_within_samples(output, limit),
        *_of_either_sign(output, limit),
        *_of_columns(output, limit, share),
    ]


def _within_samples(output: OutputDrift, limit: float) -> list[Check]:
    """Whether small values of samples are wrong beside large ones that are right."""
    places = output.totals.places
    kept = places.spread.count - places.channels - (places.channels > 1)
    counts = np.array(places.counts[:BANDS], float)
    if output.totals.values <= _FEW * output.samples:  # each may be in a unit of its own
        return []
    measured = places.spread.count and places.bands.count == len(places.counts) and len(counts)
    if not measured or counts.sum() < _ONE_SIGN * kept * output.samples or not counts[0]:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(places.bands.error_sq[:BANDS] / counts)
        size = np.sqrt(places.bands.reference_sq[:BANDS] / counts)
        relative = np.where(error > 0, error / size, 0.0)
    usual = max(float(error[0]), HALF_SPACING * float(size[0]), FLOAT16.smallest_subnormal)
    wrong = (counts >= _ENOUGH) & (relative > limit) & (error > MORE * usual)
    wrong[0] = False
    lost = wrong & (relative > max(limit, _WRONG))
    verdict = Verdict.FAIL if lost.any() else Verdict.INCONCLUSIVE
    chosen = lost if lost.any() else wrong
    worst = int(np.where(chosen, error, -1.0).argmax()) if wrong.any() else 0
    verdict = verdict if wrong.any() else Verdict.PASS
    told = f"values below 1/{4**worst} of their sample's size" if worst else "large values"
    off = f"{number_beside(relative[worst], limit)} of their own size, budget {limit:.10g}"
    if np.isinf(relative[worst]):
        told, off = "values that are 0 in the reference", f"{error[worst]:.3g} (root mean square)"
    text = f"output {output.name!r}: {told} are off by {off}"
    if worst:
        text += (
            f", and by {error[worst] / usual:.3g} times as much as large values, so it is no noise"
        )
    if verdict is Verdict.INCONCLUSIVE:
        text += _UNIMPORTANT.format(name=output.name)
    return [
        Check("slice_rel_l2", output.name, float(relative[worst]), None, None, limit, verdict, text)
    ]


def _of_either_sign(output: OutputDrift, limit: float) -> list[Check]:
    """Whether more values are near zero than are by chance, and are wrong beside large ones."""
    places = output.totals.places
    counts = np.array(places.counts[BANDS:], float)
    # Samples of any length have no places in common, and so no chance is known.
    if not counts.any() or places.bands.count != 2 * BANDS or not places.spread.count:
        return []
    either = slice(BANDS, 2 * BANDS)
    sums = [getattr(places.bands, name)[either] for name in _BAND_SUMS]
    # Of all values up to the end of a band.
    few, error, square, usual = (
        each[_EITHER_SIGN][::-1].cumsum()[::-1] for each in (counts, *sums)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sqrt(np.where(error > 0, error / square, 0.0))
    wrong = (few >= np.maximum(_ENOUGH, _by_chance(output) * counts.sum())) & (relative > limit)
    wrong &= error > MORE**2 * usual
    if not wrong.any():
        return []
    lost = wrong & (relative > max(limit, _WRONG))
    worst = int(np.where(lost if lost.any() else wrong, few, 0.0).argmax())
    measured, times = float(relative[worst]), float(np.sqrt(error[worst] / usual[worst]))
    text = (
        f"output {output.name!r}: values below 1/{4 ** (worst + _EITHER_SIGN.start)} of their "
        f"sample's size, more than are so near zero by chance, are off by "
        f"{number_beside(measured, limit)} of their own size, budget {limit:.10g}, and by "
        f"{times:.3g} times as much as large values, so it is no noise"
    )
    verdict = Verdict.FAIL if lost.any() else Verdict.INCONCLUSIVE
    if verdict is Verdict.INCONCLUSIVE:
        text += _UNIMPORTANT.format(name=output.name)
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


def _by_chance(output: OutputDrift) -> np.ndarray:
    """The share of values that may lie below the end of each band by chance.

    Each place has a size of its own: near the edge of a picture, or in a small unit, all may be
    small.
    """
    places = output.totals.places
    channels, ends = places.channels, 4.0 ** -np.arange(BANDS)[_EITHER_SIGN]
    each = (places.spread.count - channels - (channels > 1)) // channels
    sizes = np.sqrt(places.spread.reference_sq[: channels * each]).reshape(channels, each)
    whole = np.sqrt((sizes**2).mean(axis=1, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = _CHANCE * ends * np.where(sizes > 0, whole / sizes, np.inf)[..., None]
    return np.minimum(1.0, chance).mean(axis=(0, 1))


def _of_columns(output: OutputDrift, limit: float, share: float) -> list[Check]:
    """Whether a column is wrong on the samples where it is small."""
    places, edges = output.totals.places, output.totals.slices.edges[:2]
    counts = np.array(places.level_counts, float).reshape(-1, LEVELS)
    decides = output.totals.unit and output.task.kind in DECIDING and not is_guess(output)
    if decides or not counts.any() or places.levels.count != counts.size:
        return []
    errors, squares = (
        sums.reshape(counts.shape) for sums in (places.levels.error_sq, places.levels.reference_sq)
    )
    samples, ends = counts.sum(axis=1, keepdims=True), level_ends()
    if len(output.totals.fractions) == len(counts):  # of whole numbers, 0 is one as others are
        zeros = (np.array(output.totals.fractions) == 0)[:, None] & (ends <= 1)
        counts, errors, squares = (np.where(zeros, 0.0, each) for each in (counts, errors, squares))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of each level by itself; rounding is off by half a spacing at least.
        own = np.maximum(np.sqrt(errors / counts), HALF_SPACING * np.sqrt(squares / counts))
        # And of all up to the end of a level.
        few, error, square = (sums.cumsum(axis=1) for sums in (counts, errors, squares))
        whole = np.sqrt(square[:, -1:] / samples)
        error = np.sqrt(error / few)
        relative = np.where(error > 0, error / np.sqrt(square / few), 0.0)
        chance = _CHANCE * ends / whole
    own = np.where(counts >= _ENOUGH_SAMPLES, np.maximum(own, FLOAT16.smallest_subnormal), np.inf)
    # The least of all larger levels.
    usual = np.minimum.accumulate(own[:, ::-1], axis=1)[:, ::-1]
    usual = np.concatenate([usual[:, 1:], np.full_like(usual[:, :1], np.inf)], axis=1)
    if edges.shape[1] == len(counts):  # of one sign they are small for a reason
        chance[(edges[0] >= 0) | (edges[1] <= 0)] = share
    wrong = (ends <= _SMALL * whole) & (few >= np.maximum(_ENOUGH_SAMPLES, chance * samples))
    wrong &= (relative > limit) & (error > MORE * usual)
    if len(counts) > _FEW:
        # Sums and no means: a few loud samples may be all of a typical column's noise.
        wrong &= errors.cumsum(axis=1) > MORE**2 * np.median(errors.sum(axis=1))
    if not wrong.any():
        return []
    lost = wrong & (relative > max(limit, _WRONG))
    column, level = divmod(int(np.where(lost if lost.any() else wrong, few, 0).argmax()), LEVELS)
    worst = float(relative[column, level])
    where = f"column {column} of {len(counts)}" if len(counts) > 1 else "the value"
    times = error[column, level] / usual[column, level]
    text = (
        f"output {output.name!r}: {where} is off by {number_beside(worst, limit)} of its own size, "
        f"budget {limit:.10g}, on the {few[column, level]:,.0f} of {output.samples:,} samples on "
        f"which it is below {ends[level]:.3g}, and by {times:.3g} times as much as on others, so "
        "it is no noise"
    )
    verdict = Verdict.FAIL if lost.any() and not is_guess(output) else Verdict.INCONCLUSIVE
    if verdict is Verdict.INCONCLUSIVE:
        text += _UNIMPORTANT.format(name=output.name)
    return [Check("slice_rel_l2", output.name, worst, None, None, limit, verdict, text)]
