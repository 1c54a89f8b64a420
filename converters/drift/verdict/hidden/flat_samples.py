"""Checks of single samples that lose what varies within them, beside an offset of their own.

A map in kelvin that became one temperature is off by a hundredth of its size, and beside maps that
are right it hides in what all of them vary by.
"""

import numpy as np

from tfmp.converters.drift import (
    WITHIN,
    DriftBudget,
    Kind,
    OutputDrift,
    binomial_bounds,
    sample_errors,
)
from tfmp.converters.drift.verdict import (
    CONSTANT,
    FEW_ROUNDINGS,
    MORE,
    NO_NUMBERS,
    VARIATION,
    Check,
    Verdict,
    p_over,
)

# Kinds whose samples have a level of their own.
_LEVELS = frozenset({Kind.OTHER, Kind.REGRESSION, Kind.RECONSTRUCTION})

# Noise is about as large in all samples, so in a quarter of them, however many others are lost.
_QUARTER = 0.25


# FP16's spacing as a share of what it is the spacing of, on average; and what no size is below.
_SPACING, _TINY = 2.0**-10.5, float(np.finfo(np.float32).tiny)

# Samples of so many values are a signal, of which FP16 may round all that it says, unless they are
# this share of all values' range from its end.
_LONG, _END = 16, 0.05

# So many samples are no single ones that are wrong by chance.
_FEWEST = 3

# Where a candidate has one number, the reference varies by so many times as much as noise.
_ENDS = 4.0


def flat_sample_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The check of one output; none unless more samples are lost than the budget allows."""
    rows, limit, share = output.totals.rows, budget.slice_rel_l2, budget.flip_rate
    judged = output.task.kind in _LEVELS and budget.sample_rel_l2 is not None
    if limit is None or share is None or not judged or not len(rows):
        return []
    values, (errors, _) = rows.values, sample_errors(output.totals)
    if values.shape[1] < WITHIN.stop:  # a report of before
        return []
    ratio, error, spacings, where, ended = values[:, WITHIN].T
    alone = errors <= budget.sample_rel_l2  # others are judged as a whole
    flat = alone & (ratio > VARIATION * limit)
    absolute, relative = _usual_errors(output, np.where(flat, where, 0), error)
    own = np.where(where == 0, values[:, 0] / np.maximum(values[:, 1], _TINY), spacings * _SPACING)
    loud = (error > MORE * absolute) & (own > MORE * relative)
    found = (
        (
            flat & loud & (spacings > FEW_ROUNDINGS),
            f"what varies within the sample, beside its mean, is off by more than "
            f"{VARIATION * limit:.10g} of its own size and by more than {MORE:.10g} times as much "
            "as in others",
            "",
        ),
        (
            alone & (ended > _ENDS),
            "the largest, the smallest or many values have become one number, and varied by more "
            f"than {_ENDS:.10g} times as much as others are off",
            "",
        ),
        (
            flat & (spacings <= FEW_ROUNDINGS) & _beside_offsets(output),
            f"what varies within the sample, beside its mean, is off by more than "
            f"{VARIATION * limit:.10g} of its own size",
            NO_NUMBERS,
        ),
    )
    checks = [
        _check(output, budget, (int(np.count_nonzero(which)), len(rows)), what, advice)
        for which, what, advice in found
        if np.count_nonzero(which) >= max(_FEWEST, share * len(rows))
    ]
    return sorted(checks, key=lambda check: check.verdict is not Verdict.FAIL)[:1]


def _beside_offsets(output: OutputDrift) -> np.ndarray:
    """Which samples are long, in numbers past 1, and not all at the end of their range.

    Those of a few numbers and of sigmoids end at 1, blank pages at white, and skies at the far end.
    """
    totals = output.totals
    each = totals.values / max(1, totals.samples)
    low, high = totals.slices.edges[0].min(initial=0.0), totals.slices.edges[1].max(initial=0.0)
    sizes = totals.rows.values[:, 1] / each**0.5
    end = high - _END * (high - totals.slices.edges[0].min(initial=high))
    return (sizes < end) & (each >= _LONG) & (max(-low, high) > 1 + CONSTANT)


def _usual_errors(
    output: OutputDrift, where: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The error that the channel or place of each sample has in the others.

    Returns:
        Its L2 norm, and the same relative to the reference's: noise may be as large everywhere, or
        grow with the values.
    """
    totals, values = output.totals, output.totals.rows.values
    absolute = np.full(len(where), np.quantile(values[:, 0], _QUARTER))
    known = values[values[:, 1] > 0]
    typical = np.quantile(known[:, 0] / known[:, 1], _QUARTER) if len(known) else 0.0
    relative = np.full(len(where), typical)
    for at in np.unique(where[where != 0]).astype(int).tolist():
        own, slices = where == at, totals.slices if at > 0 else totals.planes
        if abs(at) <= slices.count:
            counts = totals.rows.counts * (totals.samples / totals.rows.counts.sum())
            theirs = float((counts[own] * error[own] ** 2).sum())
            rest = max(0.0, float(slices.error_sq[abs(at) - 1]) - theirs)
            absolute[own] = (rest / max(1.0, float(counts[~own].sum()))) ** 0.5
            size = float(slices.reference_sq[abs(at) - 1])
            relative[own] = (rest / size) ** 0.5 if size > 0 else 0.0
    return absolute, relative


def _check(
    output: OutputDrift, budget: DriftBudget, counts: tuple[int, int], what: str, advice: str
) -> Check:
    count, samples = counts
    share = budget.flip_rate or 0.0
    lower, upper = binomial_bounds(count, samples, budget.confidence)
    failed = lower > share and not advice
    text = (
        f"output {output.name!r}: in {count:,} of {samples:,} samples {what}; the true share is "
        f"at least {lower:.2%} ({budget.confidence:.0%} confidence), budget {share:.2%}{advice}"
    )
    return Check(
        *("flat_samples", output.name, count / samples, lower, upper, share),
        Verdict.FAIL if failed else Verdict.INCONCLUSIVE,
        text,
        p_over(lambda confidence: binomial_bounds(count, samples, confidence), share)
        if failed
        else None,
    )
