"""Labels that the reference meets no better than chance does, so that no candidate can lose."""

import math
from collections.abc import Mapping

import numpy as np

from tfmp.converters.drift.labels.drift import LabelDrift
from tfmp.converters.drift.labels.errors import ROOT_MEAN_SQUARE_ERROR
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.drift.labels.reading import CUSTOM, MULTI_LABEL, REGRESSION
from tfmp.converters.drift.labels.scores import ROC_AUC
from tfmp.converters.drift.labels.totals import REFERENCE, REFERENCE_RIGHT, TRUE

# Fewer samples are met by chance too often.
_FEWEST = 30

# Standard errors above chance.
_ABOVE = 2.0


def no_better_than_chance(label: LabelDrift) -> str | None:
    """A sentence on labels that the reference does not predict; None if it does, or may.

    Args:
        label: answers with their metrics.
    """
    metrics = {metric.name: metric for metric in label.metrics}
    if label.samples < _FEWEST or label.kind in (CUSTOM, MULTI_LABEL):
        return None
    found, about = None, "in the samples' order, and do they number the classes as the model does"
    if label.kind == REGRESSION:
        found = _far_off(metrics)
        about = "in the samples' order, and in the model's units"
    elif ROC_AUC in metrics:
        found = _unranked(label, metrics[ROC_AUC].reference)
    else:
        found = _unrelated(label)
    if found is None:
        return None
    return (
        f"the labels of output {label.output!r} do not measure drift, as the reference "
        f"does not predict them: {found}. Are they {about}?"
    )


def _far_off(metrics: Mapping[str, Metric]) -> str | None:
    error = metrics.get(ROOT_MEAN_SQUARE_ERROR)
    if error is None or error.deviation is None or error.reference < error.deviation:
        return None
    return (
        f"its {error.name} is {error.reference:.4g}, and their standard deviation only "
        f"{error.deviation:.4g}"
    )


def _unranked(label: LabelDrift, area: float) -> str | None:
    """By the area's variance where scores and labels are independent (Mann and Whitney 1947)."""
    truth = label.totals.scores.values[:, 0] > 0.5
    ones, zeros = int(truth.sum()), int((~truth).sum())
    if area > 0.5 + _ABOVE * math.sqrt((ones + zeros + 1) / (12 * ones * zeros)):
        return None
    return f"its {ROC_AUC} is {area:.4g}, and 0.5 by chance"


def _unrelated(label: LabelDrift) -> str | None:
    """By the standard error of a rate where answers and labels are independent."""
    counts = label.answers.table.sum(axis=1) if label.answers else np.zeros((0, 5), int)
    values = counts[:, TRUE].sum()
    if not values:
        return None
    true, answered = counts[:, TRUE] / values, counts[:, REFERENCE] / values
    right, chance = counts[:, REFERENCE_RIGHT].sum() / values, float(true @ answered)
    if max(true.max(), answered.max()) == 1:
        return None  # one class alone is met always or never
    if right > chance + _ABOVE * math.sqrt(chance * (1 - chance) / label.samples):
        return None
    return f"{right:.2%} of its answers are right, and {chance:.2%} would be by chance"
