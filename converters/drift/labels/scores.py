"""The metrics of answers that are right or wrong: accuracy, top 5, F1, IoU and ROC AUC."""

import math
from collections.abc import Callable

import numpy as np

from tfmp.converters.drift import Sketch
from tfmp.converters.drift.labels.counts import (
    CANDIDATE,
    CANDIDATE_RIGHT,
    REFERENCE,
    REFERENCE_RIGHT,
    TRUE,
    Counts,
)
from tfmp.converters.drift.labels.metric import Metric, metric
from tfmp.converters.drift.labels.totals import Answers

ACCURACY = "accuracy"
TOP_5 = "top-5 accuracy"
MACRO_F1 = "macro F1"
MEAN_IOU = "mean IoU"
ROC_AUC = "ROC AUC"

# Columns of `Answers.rows`: the first ones are labelled and right answers.
_TOP_REFERENCE, _COLUMNS = 3, 5

# A class in fewer groups than that is seen too seldom for the jackknife, see `by_class`.
_SCARCE = 30

# A threshold is hardly ever crossed if the rarer answer is less than this part as frequent as the
# rarer label.
_RARELY = 0.25

# Samples of either label that a standard error of the area needs.
_FEWEST = 10

# A score of each class from counts: answers that are right, labels, answers.
_Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def accuracy(found: Answers, samples: int) -> Metric:
    """The share of answers that are right.

    Pixels and tokens of one sample succeed and fail together: the samples are drawn, not they. So
    the standard error of the drop is that of a ratio of sums over samples (Cochran 1977, "Sampling
    Techniques", section 6.3).
    """
    labelled, reference, candidate = _columns(found, slice(_TOP_REFERENCE)).T
    whole, count = labelled.sum(), len(labelled)
    error = None
    if count > 1 and whole:
        lost = reference - candidate
        residual = lost - labelled * (lost.sum() / whole)
        error = float(math.sqrt((residual**2).sum() / (count - 1) * count) / whole)
    return metric(
        ACCURACY,
        found.right_reference / max(1, found.labelled),
        found.right_candidate / max(1, found.labelled),
        primary=True,
        samples=count or samples,
        lost=found.lost if found.single else None,
        gained=found.gained if found.single else None,
        standard_error=error,
        degrees=max(0.0, count - 1.0),
    )


def _columns(found: Answers, which: slice) -> np.ndarray:
    return found.rows.values[:, which] if len(found.rows) else np.empty((0, _COLUMNS))[:, which]


def top_5(found: Answers) -> Metric | None:
    """The share of samples whose class is among the five largest scores; None up to 5 classes."""
    one, other = _columns(found, slice(_TOP_REFERENCE, _COLUMNS)).T
    if not (found.ranked and len(one)):
        return None
    error = float(np.std(one - other, ddof=1)) / math.sqrt(len(one)) if len(one) > 1 else None
    return metric(
        TOP_5,
        float(one.mean()),
        float(other.mean()),
        primary=False,
        samples=len(one),
        standard_error=error,
        degrees=len(one) - 1.0,
    )


def by_class(counts: Counts, samples: int, dense: bool) -> list[Metric]:
    """Macro F1, and the mean IoU of dense answers, over the classes that the labels hold.

    Their standard errors are from a jackknife that leaves out one of 64 groups of samples at a
    time (Shao and Tu 1995, "The Jackknife and Bootstrap", section 2.3). Groups follow from the
    samples' keys, so integer counts by class and group are all that it takes, they merge exactly
    and hold any number of samples; a bootstrap would need each sample's answers for each class.

    A jackknife sees no uncertainty in a class of two samples that are both lost. Classes in fewer
    than 30 groups add the variance of a rate among as many groups, two successes and two failures
    added (Agresti and Coull 1998).

    Args:
        counts: answers by class and group.
        samples: number of distinct samples.
        dense: whether a sample has many answers.
    """
    table = counts.table[(counts.table[:, :, TRUE] > 0).any(axis=1)]
    if not len(table):
        return []
    found = [_by_class(MACRO_F1, _f1, table, samples)]
    return [_by_class(MEAN_IOU, _iou, table, samples), *found] if dense else found


def _f1(right: np.ndarray, true: np.ndarray, answered: np.ndarray) -> np.ndarray:
    return 2 * right / np.maximum(true + answered, 1)


def _iou(right: np.ndarray, true: np.ndarray, answered: np.ndarray) -> np.ndarray:
    return right / np.maximum(true + answered - right, 1)


def _by_class(name: str, score: _Score, table: np.ndarray, samples: int) -> Metric:
    whole = table.sum(axis=1)
    reference, candidate = _each_model(score, whole)
    groups = (table[:, :, TRUE] > 0).sum(axis=1)
    used = np.flatnonzero(table.sum(axis=(0, 2)))
    rest = whole[:, None, :] - table[:, used]
    held = rest[:, :, TRUE] > 0
    one, other = _each_model(score, rest)
    drops = ((one - other) * held).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
    count = len(used)
    variance = (count - 1) / count * ((drops - drops.mean()) ** 2).sum() if count > 1 else math.nan
    scarce = groups[groups < _SCARCE]
    lost = np.abs(reference - candidate)[groups < _SCARCE] * scarce
    rate = (lost + 2) / (scarce + 4)
    variance += (rate * (1 - rate) / (scarce + 4)).sum() / len(table) ** 2
    return metric(
        name,
        float(reference.mean()),
        float(candidate.mean()),
        primary=False,
        samples=samples,
        reach=0.0,
        standard_error=None if math.isnan(variance) else float(math.sqrt(variance)),
        degrees=float(count - 1),
    )


def _each_model(score: _Score, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    true = counts[..., TRUE]
    return (
        score(counts[..., REFERENCE_RIGHT], true, counts[..., REFERENCE]),
        score(counts[..., CANDIDATE_RIGHT], true, counts[..., CANDIDATE]),
    )


def auc(scores: Sketch) -> Metric | None:
    """The area under the ROC curve; None if the labels are all alike.

    The standard error of the difference is DeLong's (DeLong, DeLong and Clarke-Pearson 1988,
    "Comparing the areas under two or more correlated receiver operating characteristic curves").
    Fewer than ten samples of either label leave it unknown.
    """
    if len(scores) == 0:
        return None
    truth, reference, candidate = scores.values.T
    positive = truth > 0.5
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if min(ones, zeros) < 2 or np.isnan(reference).any():
        return None
    facts = {"primary": False, "samples": len(truth), "reach": 0.0}
    at_ones, at_zeros = _placements(reference, positive)
    if np.isnan(candidate).any():
        error = "its scores hold NaN, which has no rank"
        return metric(ROC_AUC, float(at_ones.mean()), math.nan, error=error, **facts)
    others = _placements(candidate, positive)
    variance = float(
        (at_ones - others[0]).var(ddof=1) / ones + (at_zeros - others[1]).var(ddof=1) / zeros
    )
    return metric(
        ROC_AUC,
        float(at_ones.mean()),
        float(others[0].mean()),
        standard_error=math.sqrt(variance) if min(ones, zeros) >= _FEWEST else None,
        degrees=float(min(ones, zeros) - 1),
        **facts,
    )


def _placements(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each positive the share of negatives below it, for each negative of positives above.

    Ties count by one half. Midranks give them in n log n (Sun and Xu 2014).
    """
    from scipy.stats import rankdata

    ones, zeros = scores[positive], scores[~positive]
    ranks = rankdata(scores)
    below = (ranks[positive] - rankdata(ones)) / len(zeros)
    above = 1 - (ranks[~positive] - rankdata(zeros)) / len(ones)
    return below, above


def hardly_crossed(scores: Sketch, threshold: float) -> bool:
    """Whether so few answers lie on one side of the threshold that accuracy says nothing.

    Click rates of 2 % and log-odds near -60 order samples; nobody asks whether they are over 0.5.
    """
    if len(scores) == 0:
        return False
    truth, reference, _ = scores.values.T
    rare_label, rare_answer = (
        min(share, 1 - share) for share in ((truth > 0.5).mean(), (reference >= threshold).mean())
    )
    return bool(rare_answer < _RARELY * rare_label)
