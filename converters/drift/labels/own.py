"""The value of a user's metric for both models, and how sure its difference is."""

import math
from typing import Any

import numpy as np

from tfmp.converters.drift.labels.custom import CustomMetric, MetricError
from tfmp.converters.drift.labels.kept import CANDIDATE, LABELS, REFERENCE, Arrays, Kept, Table
from tfmp.converters.drift.labels.metric import Metric, metric, worse
from tfmp.converters.drift.labels.totals import GROUPS
from tfmp.converters.shared.errors import InputError


def of_all_samples(kept: Kept) -> Metric:
    """A metric that returns one number for all samples.

    Its standard error is the jackknife's: it is computed again without each of 64 groups of
    samples. The error is 0 if no sample changed, which proves little about few samples, so bounds
    allow for samples that are lost as if each had got the prediction of another one.

    Args:
        kept: predictions and labels of all samples.

    Raises:
        InputError: the function fails on the reference's predictions.
    """
    function, table = kept.metric, kept.table
    assert function is not None
    distinct = len(np.unique(table.keys))
    facts: dict[str, Any] = {
        "primary": True,
        "samples": distinct,
        "own": True,
        "lower_is_better": function.lower_is_better,
    }
    try:
        reference = _value(function, table.of(REFERENCE), table)
    except MetricError as error:
        raise InputError(
            f"{error} These are the reference's predictions and your labels; fix the function."
        ) from error
    if not math.isfinite(reference):
        raise InputError(
            f"metric {function.name!r} gives {reference} for the reference: nothing can be "
            "compared with it. Fix the function, or the labels."
        )
    try:
        candidate = _value(function, table.of(CANDIDATE), table)
        told = f"metric {function.name!r} gives NaN for the candidate"
    except MetricError as error:
        candidate, told = math.nan, str(error)
    if math.isnan(candidate):
        return metric(function.title, reference, candidate, error=told, **facts)
    groups = np.unique(table.keys, return_inverse=True)[1] % GROUPS
    left_out = [_drop(function, table.at(groups != group)) for group in range(groups.max() + 1)]
    return metric(
        function.title,
        reference,
        candidate,
        np.array(left_out) if distinct > 1 else None,
        resamples=len(left_out),
        reach=_reach(function, table),
        **facts,
    )


def _value(function: CustomMetric, answers: Arrays, table: Table) -> float:
    return float(np.mean(function(answers, table.of(LABELS), len(table.keys))))


def _drop(function: CustomMetric, table: Table, candidate: Arrays | None = None) -> float:
    """How much worse the candidate is, or other answers in its place."""
    try:
        one = _value(function, table.of(REFERENCE), table)
        other = _value(function, table.of(CANDIDATE) if candidate is None else candidate, table)
    except MetricError:  # it may be undefined there, such as an AUC without a positive
        return math.nan
    return worse(one, other, function.lower_is_better)


def _reach(function: CustomMetric, table: Table) -> float:
    """How much worse the metric is if each sample gets the reference's prediction for another."""
    rolled = table.at(np.roll(np.arange(len(table.keys)), len(table.keys) // 2))
    found = _drop(function, table, rolled.of(REFERENCE))
    return max(0.0, found) if math.isfinite(found) else 0.0
