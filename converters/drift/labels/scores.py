"""The metrics of answers that are right or wrong: accuracy, F1, IoU and ROC AUC."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tfmp.converters.drift import Sketch
from tfmp.converters.drift.labels.metric import Metric, jackknife, metric, without_each
from tfmp.converters.drift.labels.totals import (
    CANDIDATE,
    CANDIDATE_RIGHT,
    GROUPS,
    REFERENCE,
    REFERENCE_RIGHT,
    TRUE,
    Answers,
)

ACCURACY = "accuracy"
MACRO_F1 = "macro F1"
MEAN_IOU = "mean IoU"
ROC_AUC = "ROC AUC"

# A class in fewer groups than that is seen too seldom for the jackknife, see `by_class`.
_SCARCE = 30

# Samples of either label that a standard error of the area needs.
_FEWEST = 10

# A score of each class from counts: answers that are right, labels, answers.
_Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def accuracy(found: Answers, samples: int) -> Metric:
    """The share of answers that are right.

    Pixels and tokens of one sample succeed and fail together: the samples are drawn, not they.
    """
    labelled, reference, candidate = found.rows.values.T if len(found.rows) else np.empty((3, 0))
    return metric(
        ACCURACY,
        found.right_reference / max(1, found.labelled),
        found.right_candidate / max(1, found.labelled),
        without_each(reference - candidate, labelled),
        primary=True,
        samples=len(labelled) or samples,
        lost=found.lost if found.single else None,
        gained=found.gained if found.single else None,
    )


def by_class(found: Answers) -> list[Metric]:
    """Macro F1, and the mean IoU of dense answers, over the classes that the labels hold.

    Their jackknife leaves out one of 64 groups of samples at a time. Groups follow from the
    samples' keys, so integer counts by class and group are all that it takes, and merge exactly.

    A jackknife sees no uncertainty in a class of two samples that are both lost. Classes in fewer
    than 30 groups add the variance of a rate among as many groups, two successes and two failures
    added (Agresti and Coull 1998).
    """
    table, samples = found.table, len(found.rows)
    table = table[(table[:, :, TRUE] > 0).any(axis=1)]
    if not len(table):
        return []
    f1 = _by_class(MACRO_F1, _f1, table, samples)
    return [f1] if found.single else [_by_class(MEAN_IOU, _iou, table, samples), f1]


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
    scarce = groups[groups < _SCARCE]
    lost = np.abs(reference - candidate)[groups < _SCARCE] * scarce
    rate = (lost + 2) / (scarce + 4)
    unsure = (rate * (1 - rate) / (scarce + 4)).sum() / len(table) ** 2
    error, degrees = jackknife(drops)
    return metric(
        name,
        float(reference.mean()),
        float(candidate.mean()),
        primary=False,
        samples=samples,
        reach=0.0,
        standard_error=None if error is None else math.sqrt(error**2 + unsure),
        degrees=degrees,
    )


def _each_model(score: _Score, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    true = counts[..., TRUE]
    return (
        score(counts[..., REFERENCE_RIGHT], true, counts[..., REFERENCE]),
        score(counts[..., CANDIDATE_RIGHT], true, counts[..., CANDIDATE]),
    )


def auc(scores: Sketch) -> Metric | None:
    """The area under the ROC curve; None if the labels are all alike.

    Fewer than ten samples of either label leave its standard error unknown.
    """
    if len(scores) == 0:
        return None
    truth, reference, candidate = scores.values.T
    positive = truth > 0.5
    rarer = min(int(positive.sum()), int((~positive).sum()))
    if rarer < 2 or np.isnan(reference).any():
        return None
    facts: dict[str, Any] = {"primary": False, "samples": len(truth), "reach": 0.0}
    if np.isnan(candidate).any():
        text = "its scores hold NaN, which has no rank"
        return metric(ROC_AUC, _area(reference, positive), math.nan, error=text, **facts)
    groups = (scores.keys % np.uint64(GROUPS)).astype(int)
    kept = [groups != group for group in np.unique(groups)] if rarer >= _FEWEST else []
    drops = [
        _area(reference[some], positive[some]) - _area(candidate[some], positive[some])
        for some in kept
    ]
    areas = _area(reference, positive), _area(candidate, positive)
    return metric(ROC_AUC, *areas, np.array(drops), **facts)


def _area(scores: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs of either label in which the positive has the larger score.

    Ties count by one half. Midranks give it in n log n (Mann and Whitney 1947).
    """
    from scipy.stats import rankdata

    ones = np.count_nonzero(positive)
    zeros = len(positive) - ones
    if not ones or not zeros:
        return math.nan
    return float((rankdata(scores)[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
