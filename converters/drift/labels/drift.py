"""The answers of reference and candidate against labels, on the same samples."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfmp.converters.drift import total
from tfmp.converters.drift.labels.errors import (
    MEAN_ABSOLUTE_ERROR,
    mean_of_samples,
    root_mean_square,
)
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.drift.labels.own import of_all_samples
from tfmp.converters.drift.labels.reading import BINARY, CUSTOM, MULTI_LABEL, REGRESSION
from tfmp.converters.drift.labels.scores import accuracy, auc, by_class
from tfmp.converters.drift.labels.totals import Answers, LabelTotals
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
    totals: LabelTotals
    metrics: tuple[Metric, ...] = ()

    @property
    def answers(self) -> Answers | None:
        """The answers that are right or wrong; None for numbers and metrics of the user's own."""
        if self.kind in (REGRESSION, CUSTOM):
            return None
        yes_or_no = self.kind in (BINARY, MULTI_LABEL)
        return self.totals.by_threshold if yes_or_no else self.totals.by_class


def kinds_of(labels: Sequence[LabelDrift]) -> dict[str, str]:
    """The kinds of labels that say what their output means, by output.

    Zeros and ones that were compared as numbers do not.
    """
    return {
        label.output: label.kind
        for label in labels
        if label.kind != REGRESSION or not label.totals.zeros_and_ones
    }


def label_drift(output: str, kind: str, totals: LabelTotals) -> LabelDrift:
    """The answers that `totals` are of, without the metrics that take time.

    Args:
        output: name of the output.
        kind: kind of labels. Those of yes and no that are neither are numbers after all.
        totals: sums over all samples.
    """
    if kind in (BINARY, MULTI_LABEL) and not totals.zeros_and_ones:
        kind = REGRESSION
    name = MEAN_ABSOLUTE_ERROR
    if kind == CUSTOM:
        name = totals.kept.metric.title if totals.kept.metric else output
    reference, candidate = (
        total(part) / max(1, totals.samples)
        for part in (totals.reference_error, totals.candidate_error)
    )
    plain = LabelDrift(
        *(output, kind, name, totals.samples, reference, candidate, None, None, totals)
    )
    answers = plain.answers
    if answers is None:
        return plain
    first = next(_metrics(plain))
    return replace(_with(plain, [first]), lost=first.lost, gained=first.gained, metrics=())


def with_metrics(label: LabelDrift) -> LabelDrift:
    """The same answers with all of their metrics.

    Raises:
        InputError: a metric of the user's own fails, or is missing its predictions.
    """
    if label.metrics or not label.samples:
        return label
    return _with(label, [each for each in _metrics(label) if each is not None])


def _metrics(label: LabelDrift) -> Iterator[Any]:
    """All metrics, the primary one first; None for one that these answers do not have."""
    totals, answers = label.totals, label.answers
    if label.kind == CUSTOM:
        yield _own(label)
    elif answers is None:
        yield mean_of_samples(MEAN_ABSOLUTE_ERROR, totals, lower_is_better=True)
        yield root_mean_square(totals)
    else:
        yield accuracy(answers, totals.samples)
        yield from [auc(totals.scores)] if label.kind == BINARY else by_class(answers)


def _own(label: LabelDrift) -> Metric:
    totals, function = label.totals, label.totals.kept.metric
    if len(totals.errors):
        lower = function.lower_is_better if function is not None else False
        found = mean_of_samples(label.metric, totals, lower, own=True)
        if math.isfinite(found.candidate):
            return found
        return replace(found, error="it is NaN or infinite for some samples of the candidate")
    if function is None:
        raise InputError(
            f"metric {label.metric!r} has neither predictions nor numbers by sample; the document "
            "was cut or changed. Write the report again with tfmp-convert."
        )
    return of_all_samples(totals.kept)


def _with(label: LabelDrift, metrics: Sequence[Metric]) -> LabelDrift:
    first = metrics[0]
    sides = {"reference": first.reference, "candidate": first.candidate}
    return replace(label, metric=first.name, metrics=tuple(metrics), **sides)  # type: ignore[arg-type]
