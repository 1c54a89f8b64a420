"""Checks of single values of samples that are a few numbers each, column by column.

Sums over a column hide samples: a share s of temperatures that is all wrong is off by about the
root of s, and beside larger columns of the same sample no size shows it.
"""

import numpy as np

from tfmp.converters.drift import (
    COLUMNS,
    DriftBudget,
    Kind,
    OutputDrift,
    binomial_bounds,
)
from tfmp.converters.drift.verdict import (
    FEW_ROUNDINGS,
    VARIATION,
    Check,
    Verdict,
    deviation_of,
    p_over,
)
from tfmp.shared.numerics import FLOAT16, ulp

# Kinds whose columns are numbers of their own.
_NUMBERS = frozenset({Kind.OTHER, Kind.REGRESSION})

# Noise is what the others are off by: all but the worst tenth. Of normal errors one in 500 is more
# than four times as large as these.
_OTHERS, _TAIL = 0.9, 4.0

# So many samples are no single ones that are wrong by chance.
_FEWEST = 3


def wrong_value_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The check of one output; none unless more samples are wrong than the budget allows."""
    totals, limit, share = output.totals, budget.slice_rel_l2, budget.flip_rate
    rows, slices = totals.rows, totals.slices
    few = 0 < slices.count * totals.samples == totals.values
    few = few and slices.count <= COLUMNS.stop - COLUMNS.start
    if limit is None or share is None or not few or output.task.kind not in _NUMBERS:
        return []
    if not len(rows) or rows.values.shape[1] < COLUMNS.stop:  # a report of before
        return []
    errors = rows.values[:, COLUMNS][:, : slices.count]
    deviation = deviation_of(output, slices)
    size = np.sqrt(slices.reference_sq / totals.samples)
    others = np.sort(errors, axis=0)[: int(np.ceil(_OTHERS * len(errors)))]
    usual = np.sqrt((others**2).mean(axis=0))
    step = ulp(np.maximum(size, FLOAT16.smallest_normal))
    least = np.maximum(VARIATION * limit * deviation, FEW_ROUNDINGS * step)
    wrong = errors > np.maximum(least, _TAIL * usual)
    counts = np.count_nonzero(wrong, axis=0)
    column = int(counts.argmax())
    count, samples = int(counts[column]), len(rows)
    if count < max(_FEWEST, share * samples):
        return []
    # The worst of so many columns: each of them has its part of the error rate.
    confidence = 1 - (1 - budget.confidence) / slices.count
    lower, upper = binomial_bounds(count, samples, confidence)
    where = f"column {column} of {slices.count}" if slices.count > 1 else "the value"
    text = (
        f"output {output.name!r}: in {count:,} of {samples:,} samples {where} is off by more than "
        f"{VARIATION * limit:.10g} of what it varies by ({deviation[column]:.4g}) and by more than "
        f"{_TAIL:.10g} times as much as in others; the true share is at least {lower:.2%} "
        f"({budget.confidence:.0%} confidence), budget {share:.2%}"
    )
    steps = np.ptp(errors[wrong[:, column], column]) == 0  # counts that became the next one
    failed = lower > share and not steps
    measured = count / samples
    return [
        Check(
            *("wrong_values", output.name, measured, lower, upper, share),
            Verdict.FAIL if failed else Verdict.INCONCLUSIVE,
            text,
            p_over(lambda each: binomial_bounds(count, samples, each), share) * slices.count
            if failed
            else None,
        )
    ]
