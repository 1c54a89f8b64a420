"""The metrics of answers that are right or wrong: accuracy, top 5, F1, IoU and ROC AUC."""

import math
from collections.abc import Callable

import numpy as np

from tfmp.converters.drift import Sketch
from tfmp.converters.drift.labels.counts import (
    CANDIDATE,
    CANDIDATE_RIGHT,
    GROUPS,
    REFERENCE,
    REFERENCE_RIGHT,
    TRUE,
    Counts,
)
from tfmp.converters.drift.labels.metric import SCORE, STUDENT, TANGO, Metric, metric
from tfmp.converters.drift.labels.totals import Answers

ACCURACY = "accuracy"
TOP_5 = "top-5 accuracy"
MACRO_F1 = "macro F1"
MEAN_IOU = "mean IoU"
ROC_AUC = "ROC AUC"

_LABELLED, _REFERENCE, _CANDIDATE, _TOP_REFERENCE, _TOP_CANDIDATE = range(5)

# A class in fewer groups than that is seen too seldom for the jackknife, see `by_class`.
_SCARCE = 30

# A threshold is hardly ever crossed if the rarer answer is less than this part as frequent as the
# rarer label.
_RARELY = 0.25

# Samples of either label that a standard error of the area needs.
_FEWEST = 10

# A score of each class from counts: answers that are right, labels, answers.
_Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def accuracy(found: Answers, samples: int, primary: bool) -> Metric:
    """The share of answers that are right."""
    if found.single:
        reference, candidate = found.both + found.lost, found.both + found.gained
        lost, gained, distinct = found.lost, found.gained, samples
        if repeats(found.rows):
            values = found.rows.values
            lost, gained = _changed(values[:, _REFERENCE], values[:, _CANDIDATE])
            distinct = len(values)
        return metric(
            ACCURACY,
            reference / samples if samples else 0.0,
            candidate / samples if samples else 0.0,
            primary=primary,
            samples=distinct,
            law=TANGO,
            lost=lost,
            gained=gained,
        )
    labelled = max(1, found.labelled)
    return metric(
        ACCURACY,
        found.right_reference / labelled,
        found.right_candidate / labelled,
        primary=primary,
        samples=len(found.rows) or samples,
        law=SCORE,
        standard_error=_error_by_sample(found.rows),
        degrees=max(0.0, len(found.rows) - 1.0),
    )


def repeats(rows: Sketch) -> bool:
    """Whether some sample came more than once."""
    return bool((rows.counts > 1).any())


def _changed(reference: np.ndarray, candidate: np.ndarray) -> tuple[int, int]:
    lost, gained = reference > candidate, candidate > reference
    return int(np.count_nonzero(lost)), int(np.count_nonzero(gained))


def _error_by_sample(rows: Sketch) -> float | None:
    """Standard error of the drop, a ratio of sums over samples (Cochran 1977, section 6.3).

    Pixels and tokens of one sample succeed and fail together: the samples are drawn, not they.
    """
    if len(rows) < 2:
        return None
    values = rows.values
    labelled = values[:, _LABELLED]
    lost = values[:, _REFERENCE] - values[:, _CANDIDATE]
    whole = labelled.sum()
    if not whole:
        return None
    residual = lost - labelled * (lost.sum() / whole)
    count = len(values)
    return float(math.sqrt((residual**2).sum() / (count - 1) * count) / whole)


def top_5(found: Answers) -> Metric | None:
    """The share of samples whose class is among the five largest scores; None up to 5 classes."""
    if not (found.ranked and len(found.rows)):
        return None
    values = found.rows.values
    one, other = values[:, _TOP_REFERENCE], values[:, _TOP_CANDIDATE]
    lost, gained = _changed(one, other)
    return metric(
        TOP_5,
        float(one.mean()),
        float(other.mean()),
        primary=False,
        samples=len(values),
        law=TANGO,
        lost=lost,
        gained=gained,
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
    classes, table = counts.by_class()
    table = table[(table[:, :, TRUE] > 0).any(axis=1)]
    if len(classes) == 0 or not len(table):
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
        law=STUDENT,
        standard_error=None if math.isnan(variance) else float(math.sqrt(variance)),
        degrees=float(min(count, GROUPS) - 1),
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
    facts = {"primary": False, "samples": len(truth), "law": STUDENT}
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
