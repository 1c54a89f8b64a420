"""The check of whole numbers of which some become the next ones, as counts and grades do.

A step of one is all that such an output can be off by, so its distance is that of a few values,
however right the others are: each step is a decision, and their rate is limited.
"""

import numpy as np

from tfmp.converters.drift import Clustered, DriftBudget, Kind, OutputDrift, total
from tfmp.converters.drift.verdict.check import Check, against, bound_text

# Kinds that may hold amounts.
_KINDS = frozenset({Kind.OTHER, Kind.REGRESSION})


def step_check(output: OutputDrift, budget: DriftBudget) -> Check | None:
    """The check of steps; None where values are no whole numbers, or more change than may.

    Errors are all 0 or 1 where their squares add up to what they do themselves.
    """
    totals, limit = output.totals, budget.flip_rate
    if limit is None or output.task.kind not in _KINDS or not totals.whole or totals.nonfinite:
        return None
    changed, rows = total(totals.error_abs), totals.rows
    steps = 0 < changed == total(totals.error_sq) <= limit * totals.values
    if not steps or not len(rows):
        return None
    each, counts = totals.values // totals.samples, rows.counts
    by_sample = np.rint(rows.values[:, 0] ** 2)
    samples, found = int(counts.sum()), int((counts * by_sample).sum())
    rate = Clustered(
        samples,
        samples * each,
        found,
        int((counts * by_sample**2).sum()),
        found * each,
        samples * each**2,
        rows.repeated,
    )
    lower, upper = rate.bounds(budget.confidence)
    verdict = against(lower, upper, limit)
    text = (
        f"output {output.name!r}: all of its values are whole numbers, and {changed:,.0f} of "
        f"{totals.values:,} are the next ones; the true rate is at "
        f"{bound_text(verdict, lower, upper, budget)}, budget {limit:.2%}"
    )
    p = rate.p_over(limit)
    return Check("flip_rate", output.name, rate.rate, lower, upper, limit, verdict, text, p)
