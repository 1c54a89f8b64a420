"""The metrics of answers that are numbers: mean absolute error and root mean square error."""

import math

import numpy as np

from tfmp.converters.drift import Expansion, Sketch, total
from tfmp.converters.drift.labels.metric import SCORE, STUDENT, Metric, metric
from tfmp.converters.drift.labels.scores import repeats
from tfmp.converters.drift.labels.totals import LabelTotals

MEAN_ABSOLUTE_ERROR = "mean absolute error"
ROOT_MEAN_SQUARE_ERROR = "root mean square error"

_ABSOLUTE, _SQUARED = (0, 1), (2, 3)

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
    samples, rows = totals.samples, totals.errors
    count = max(1, samples)
    reference, candidate = total(totals.reference_error), total(totals.candidate_error)
    change, change_sq = (candidate - reference) / count, total(totals.change_sq)
    reach = 0.0
    if len(rows):
        one, other = rows.values[:, _ABSOLUTE].T
        with np.errstate(invalid="ignore", over="ignore"):
            changes = other - one if lower_is_better else one - other
            reach = 1.0 if own and _are_shares(rows) else _UNSEEN * max(0.0, float(changes.max()))
            if repeats(rows):
                count = samples = len(rows)
                change, change_sq = float(changes.mean()), float((changes**2).sum())
    return metric(
        name,
        reference / max(1, totals.samples),
        candidate / max(1, totals.samples),
        primary=True,
        samples=samples,
        law=SCORE if len(rows) else STUDENT,
        reach=reach,
        lower_is_better=lower_is_better,
        own=own,
        standard_error=_standard_error(change, change_sq, count),
        degrees=float(count - 1),
        deviation=None if own else deviation(totals),
        scale=None if own else scale(totals),
        rounded=None if own else _rounded(totals.rounded_error, totals),
    )


def _rounded(sums: Expansion, totals: LabelTotals) -> float | None:
    """The mean over samples; None in an old report, and where FP16 overflows."""
    mean = total(sums) / max(1, totals.samples)
    return mean if sums and math.isfinite(mean) else None


def _are_shares(rows: Sketch) -> bool:
    """Whether all numbers lie between 0 and 1, as ones and zeros for right and wrong do."""
    values = rows.values
    return bool(((values >= 0) & (values <= 1)).all()) and len(rows) > 0


def _standard_error(mean: float, sum_of_squares: float, samples: int) -> float | None:
    if samples < 2 or not math.isfinite(mean) or not math.isfinite(sum_of_squares):
        return None
    variance = max(0.0, sum_of_squares - samples * mean * mean) / (samples - 1)
    return math.sqrt(variance / samples)


def deviation(totals: LabelTotals) -> float | None:
    """The standard deviation of the labels; None if it is unknown."""
    found = totals.spread.deviation
    return found if math.isfinite(found) else None


def scale(totals: LabelTotals) -> float | None:
    """What errors of labels are seen beside, see `Spread.scale`; None if it is unknown."""
    found = totals.spread.scale
    return found if math.isfinite(found) else None


def root_mean_square(totals: LabelTotals) -> Metric | None:
    """The root mean square error of the distinct samples; None without rows.

    The standard error of its change follows from how a sample's squares move the two roots (the
    delta method).
    """
    rows = totals.errors
    if len(rows) < 2:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = rows.values[:, _SQUARED].T
        roots = [math.sqrt(float(part.mean())) for part in (one, other)]
        if not all(map(math.isfinite, roots)):
            return None
        moved = [
            (part - root * root) / (2 * root) if root else np.zeros(len(part))
            for part, root in zip((one, other), roots, strict=True)
        ]
        rounded = _rounded(totals.rounded_sq, totals)
        error = float(np.std(moved[1] - moved[0], ddof=1)) / math.sqrt(len(rows))
    return metric(
        ROOT_MEAN_SQUARE_ERROR,
        roots[0],
        roots[1],
        primary=False,
        samples=len(rows),
        law=STUDENT,
        lower_is_better=True,
        standard_error=error,
        degrees=float(len(rows) - 1),
        deviation=deviation(totals),
        scale=scale(totals),
        rounded=None if rounded is None else math.sqrt(rounded),
    )
