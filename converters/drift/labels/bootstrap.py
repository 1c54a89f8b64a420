"""The value of a user's metric for both models, and a paired bootstrap of its difference."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfmp.converters.drift.labels.custom import CustomMetric, MetricError
from tfmp.converters.drift.labels.kept import Kept, Table
from tfmp.converters.drift.labels.metric import Metric, metric, worse
from tfmp.converters.shared.errors import InputError

# Numbers of resamples, the first of which is made where the function is fast enough. Few steps,
# so that two runs on one machine hardly ever differ in it.
RESAMPLES = (1000, 200, 50, 20)

# Time in seconds that resampling may take, and resamples that are timed: other work on the machine
# may slow one down, and then another number of resamples would give another bound.
SECONDS = 10.0
_TIMED = 5

_SEED = 0


def bootstrap(kept: Kept, clock: Callable[[], float] = time.perf_counter) -> Metric:
    """A metric that returns one number for all samples.

    Distinct samples are drawn with replacement, copies of one sample together, and the same ones
    for both models (Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters 6 and
    8). The standard deviation of the differences is the standard error. It is 0 if no sample
    changed, which proves little about few samples, so bounds allow for samples that are lost as if
    each had got the prediction of another one.

    Args:
        kept: predictions and labels of all samples.
        clock: tells the time in seconds.

    Raises:
        InputError: the function fails on the reference's predictions.
    """
    function, table = kept.metric, kept.table
    assert function is not None
    starts = _starts(table.keys)
    distinct = len(starts) - 1
    facts = {
        "primary": True,
        "samples": distinct,
        "own": True,
        "lower_is_better": function.lower_is_better,
    }
    reference, candidate, error = _values(function, table)
    if error is not None:
        return metric(function.title, reference, math.nan, error=error, **facts)
    chooser = np.random.default_rng(_SEED)

    def resample() -> float:
        chosen = chooser.integers(0, distinct, distinct)
        rows = chosen if distinct == len(table.keys) else _members(starts, chosen)
        try:
            one, other = (_call(function, table.at(rows), model) for model in _MODELS)
        except MetricError:  # it may be undefined there, such as an AUC without a positive
            return math.nan
        return worse(one, other, function.lower_is_better)

    found, seconds = [], math.inf
    for _ in range(_TIMED):
        began = clock()
        found.append(resample())
        seconds = min(seconds, clock() - began)
    resamples = next((count for count in RESAMPLES if count * seconds <= SECONDS), RESAMPLES[-1])
    found += [resample() for _ in range(resamples - len(found))]
    defined = [value for value in found if math.isfinite(value)]
    enough = len(defined) > len(found) / 2
    return metric(
        function.title,
        reference,
        candidate,
        standard_error=float(np.std(defined, ddof=1)) if enough else None,
        degrees=float(min(len(defined), distinct) - 1),
        resamples=len(found),
        reach=_reach(function, table, reference),
        **facts,
    )


_MODELS = ("reference", "candidate")


def _values(function: CustomMetric, table: Table) -> tuple[float, float, str | None]:
    """The metric of both models; the candidate's may be undefined, and then there is a reason."""
    try:
        reference = _call(function, table, "reference")
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
        candidate = _call(function, table, "candidate")
    except MetricError as error:
        return reference, math.nan, str(error)
    if math.isnan(candidate):
        return reference, candidate, f"metric {function.name!r} gives NaN for the candidate"
    return reference, candidate, None


def _reach(function: CustomMetric, table: Table, reference: float) -> float:
    """How much worse the metric is if each sample gets the reference's prediction for another."""
    rolled = np.roll(np.arange(len(table.keys)), len(table.keys) // 2)
    try:
        lost = _call(function, replace(table.at(rolled), labels=table.labels), "reference")
    except MetricError:
        return 0.0
    reach = worse(reference, lost, function.lower_is_better)
    return max(0.0, reach) if math.isfinite(reach) else 0.0


def _call(function: CustomMetric, table: Table, model: str) -> float:
    value = function(getattr(table, model), table.labels, len(table.keys))
    return value if isinstance(value, float) else float(value.mean())


def _starts(keys: np.ndarray) -> np.ndarray:
    """Where each distinct sample begins, and the end."""
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return np.append(first, len(keys))


def _members(starts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The places of all copies of the chosen samples."""
    return np.concatenate([np.arange(starts[one], starts[one + 1]) for one in chosen])
