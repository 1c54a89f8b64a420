"""The metrics of answers that are numbers: mean absolute error and root mean square error."""

import math

import numpy as np

from tfmp.converters.drift import Sketch, total
from tfmp.converters.drift.labels.metric import Metric, metric, without_each
from tfmp.converters.drift.labels.totals import LabelTotals

MEAN_ABSOLUTE_ERROR = "mean absolute error"
ROOT_MEAN_SQUARE_ERROR = "root mean square error"

_ABSOLUTE, _SQUARED, _WITHIN = (0, 1), (2, 3), 4

# A sample that nobody saw may have changed for the worse this many times as far as the worst that
# was seen. Among as many samples again, none is worse in 95 of 100 runs even of numbers with a tail
# of index 1.5, whose variance is infinite: (1 / 0.05 - 1) ** (1 / 1.5).
_UNSEEN = 7.1


def mean_of_samples(
    name: str, totals: LabelTotals, lower_is_better: bool, own: bool = False
) -> Metric:
    """The mean of a number for each sample, such as its mean absolute error.

    Its growth has no bound without an assumption, as numbers without a largest one never have. The
    upper bound adds to the standard error what a few samples do that changed far more than others:
    their like may be missing from the samples at hand.

    Args:
        name: name of the metric.
        totals: sums of the numbers; rows of `errors` begin with them.
        lower_is_better: whether the number is an error.
        own: whether the metric is the user's.
    """
    rows = totals.errors
    one, other = rows.values[:, _ABSOLUTE].T if len(rows) else np.empty((2, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        changes = other - one if lower_is_better else one - other
        left_out = without_each(changes)
        shares = own and bool(((rows.values >= 0) & (rows.values <= 1)).all())
        reach = 1.0 if shares else _UNSEEN * float(changes.max(initial=0.0))
    return metric(
        name,
        total(totals.reference_error) / max(1, totals.samples),
        total(totals.candidate_error) / max(1, totals.samples),
        left_out,
        primary=True,
        samples=len(rows),
        reach=reach,
        lower_is_better=lower_is_better,
        own=own,
        deviation=None if own else _deviation(rows),
    )


def root_mean_square(totals: LabelTotals) -> Metric | None:
    """The root mean square error of the distinct samples; None without rows."""
    rows = totals.errors
    if len(rows) < 2:
        return None
    squares = rows.values[:, _SQUARED].T
    roots = [math.sqrt(float(part.mean())) for part in squares]
    if not all(map(math.isfinite, roots)):
        return None
    one, other = (np.sqrt(np.maximum(0.0, without_each(part))) for part in squares)
    return metric(
        ROOT_MEAN_SQUARE_ERROR,
        roots[0],
        roots[1],
        other - one,
        primary=False,
        samples=len(rows),
        reach=0.0,
        lower_is_better=True,
        deviation=_deviation(rows),
    )


def _deviation(rows: Sketch) -> float | None:
    """The standard deviation of the labels, from column to column on average; None if unknown.

    Columns are averaged as variances: their differences in level are no spread.
    """
    spread = rows.values[:, _WITHIN:] if len(rows) else np.empty((0, 0))
    spread = spread[np.isfinite(spread).all(axis=1)]
    if not spread.size:
        return None
    within, columns = spread[:, 0], spread[:, 1:]
    return math.sqrt(float(np.square(within).mean() + columns.var(axis=0).mean()))
