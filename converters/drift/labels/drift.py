"""The answers of reference and candidate against labels, on the same samples."""

import math
from dataclasses import dataclass, replace

from tfmp.converters.drift import mcnemar, total
from tfmp.converters.drift.labels.bootstrap import bootstrap
from tfmp.converters.drift.labels.errors import (
    MEAN_ABSOLUTE_ERROR,
    mean_of_samples,
    root_mean_square,
)
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.drift.labels.reading import BINARY, CUSTOM, REGRESSION
from tfmp.converters.drift.labels.scores import (
    ACCURACY,
    accuracy,
    auc,
    by_class,
    hardly_crossed,
    top_5,
)
from tfmp.converters.drift.labels.totals import (
    Answers,
    LabelTotals,
    answers_of,
    pruned,
    settled,
)
from tfmp.converters.shared.errors import InputError


@dataclass(frozen=True)
class LabelDrift:
    """Reference and candidate against the labels of one output, or by a metric of the user's own.

    Attributes:
        output: the reference's name of the output; "" for a metric of several outputs.
        kind: "class ids", "one-hot", "binary", "multi-label", "regression" or "custom".
        metric: name of the primary metric, such as "accuracy" or "mean absolute error".
        samples: number of labelled samples.
        reference: the primary metric of the reference.
        candidate: the primary metric of the candidate.
        lost: samples that only the reference has right; None unless each sample has one answer.
        gained: samples that only the candidate has right, in the same way.
        mcnemar_p: exact two-sided p-value that lost and gained are equally likely, in the same way.
        totals: sums that the metrics follow from; shards are merged through them.
        metrics: all metrics, the primary one first; empty until the report is judged.
    """

    output: str
    kind: str
    metric: str
    samples: int
    reference: float
    candidate: float
    lost: int | None
    gained: int | None
    mcnemar_p: float | None
    totals: LabelTotals
    metrics: tuple[Metric, ...] = ()


def label_drift(output: str, kind: str, totals: LabelTotals) -> LabelDrift:
    """The answers that `totals` are of, without the metrics that take time.

    Args:
        output: name of the output.
        kind: kind of labels, where totals of an old report do not tell.
        totals: sums over all samples.
    """
    totals = pruned(totals)
    if totals.reading is not None and kind != CUSTOM:
        kind = settled(totals)
    found = _answers(kind, totals)
    if found is not None:
        totals = replace(totals, both=found.both, lost=found.lost, gained=found.gained)
    if kind in (REGRESSION, CUSTOM):
        errors = (total(part) for part in (totals.reference_error, totals.candidate_error))
        reference, candidate = (error / max(1, totals.samples) for error in errors)
        name = MEAN_ABSOLUTE_ERROR
        if kind == CUSTOM:
            name = totals.kept.metric.title if totals.kept.metric else output
    else:
        first = accuracy(found or Answers(), totals.samples, primary=True)
        name, reference, candidate = ACCURACY, first.reference, first.candidate
    single = found is not None and found.single
    return LabelDrift(
        output=output,
        kind=kind,
        metric=name,
        samples=totals.samples,
        reference=reference,
        candidate=candidate,
        lost=totals.lost if single else None,
        gained=totals.gained if single else None,
        mcnemar_p=mcnemar(totals.lost, totals.gained) if single else None,
        totals=totals,
    )


def _answers(kind: str, totals: LabelTotals) -> Answers | None:
    if kind in (REGRESSION, CUSTOM):
        return None
    if totals.reading is None:  # an old report: its answers were counted by sample
        return Answers(both=totals.both, lost=totals.lost, gained=totals.gained)
    return answers_of(totals)


def with_metrics(label: LabelDrift) -> LabelDrift:
    """The same answers with all of their metrics.

    Raises:
        InputError: a metric of the user's own fails, or is missing its predictions.
    """
    if label.metrics or not label.samples:
        return label
    totals = label.totals
    if label.kind == CUSTOM:
        return _with(label, [_own(label)])
    if label.kind == REGRESSION:
        first = mean_of_samples(MEAN_ABSOLUTE_ERROR, totals, lower_is_better=True)
        other = root_mean_square(totals)
        return _with(label, [first, *([other] if other else [])])
    found = _answers(label.kind, totals) or Answers()
    metrics = [accuracy(found, totals.samples, primary=True)]
    metrics += [each for each in (top_5(found),) if each is not None]
    if label.kind == BINARY:
        metrics = _with_auc(metrics, totals)
    else:
        metrics += by_class(found.counts, len(found.rows), not found.single)
    return _with(label, metrics)


def _with_auc(metrics: list[Metric], totals: LabelTotals) -> list[Metric]:
    """ROC AUC beside accuracy, or before it if the threshold is hardly ever crossed."""
    area = auc(totals.scores)
    if area is None:
        return metrics
    if not hardly_crossed(totals.scores, 0.5 if totals.unit else 0.0):
        return [*metrics, area]
    return [replace(area, primary=True), *(replace(each, primary=False) for each in metrics)]


def _own(label: LabelDrift) -> Metric:
    totals = label.totals
    if len(totals.errors):
        function = totals.kept.metric
        lower = function.lower_is_better if function is not None else False
        found = mean_of_samples(label.metric, totals, lower, own=True)
        if math.isfinite(found.candidate):
            return found
        return replace(found, error="it is NaN or infinite for some samples of the candidate")
    if totals.kept.metric is None:
        raise InputError(
            f"metric {label.metric!r} has neither predictions nor numbers by sample; the document "
            "was cut or changed. Write the report again with tfmp-convert."
        )
    return bootstrap(totals.kept)


def _with(label: LabelDrift, metrics: list[Metric]) -> LabelDrift:
    first = metrics[0]
    return replace(
        label,
        metric=first.name,
        reference=first.reference,
        candidate=first.candidate,
        metrics=tuple(metrics),
    )
