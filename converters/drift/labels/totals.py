"""Totals of answers against labels over batches, in a form that merges exactly."""

from dataclasses import dataclass, field, replace

from tfmp.converters.drift import Common, Expansion, Sketch, merge
from tfmp.converters.drift.labels.counts import Counts
from tfmp.converters.drift.labels.kept import Kept
from tfmp.converters.drift.labels.reading import (
    BINARY,
    CLASS_IDS,
    IDS,
    MULTI_LABEL,
    ONE_HOT,
    REGRESSION,
    ROWS,
    VALUES,
    is_class_ids,
)
from tfmp.converters.drift.labels.spread import Spread
from tfmp.converters.shared.errors import InputError


@dataclass(frozen=True)
class Answers:
    """Answers that are right or wrong.

    Attributes:
        single: whether each sample has one answer.
        ranked: whether there are more than five classes, so that the best five say something.
        both: samples with one answer that both models have right.
        lost: samples that only the reference has right.
        gained: samples that only the candidate has right.
        labelled: answers with a label.
        right_reference: those that the reference has right.
        right_candidate: those that the candidate has right.
        rows: for each sample its `labelled`, `right_reference` and `right_candidate`, and whether
            the true class is among the best five of the reference and of the candidate.
        counts: answers by class.
    """

    single: bool = True
    ranked: bool = True
    both: int = 0
    lost: int = 0
    gained: int = 0
    labelled: int = 0
    right_reference: int = 0
    right_candidate: int = 0
    rows: Sketch = field(default_factory=Sketch)
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class LabelTotals:
    """Sums over labelled samples; they merge exactly, like `totals.Totals`.

    Attributes:
        samples: number of labelled samples.
        both: samples that both have right (classification).
        lost: samples that only the reference has right.
        gained: samples that only the candidate has right.
        reference_error: sum over samples of the reference's mean absolute error (regression).
        candidate_error: the same sum for the candidate.
        change_sq: sum of squared changes of a sample's error from reference to candidate.
        rounded_error: the sum of `reference_error` for the reference's outputs rounded to FP16.
        rounded_sq: the sum over samples of their mean squared errors.
        reading: way to read the labels, from their shape; None in old reports.
        zeros_and_ones: whether all labels are 0 or 1.
        one_hot: whether all rows of labels hold exactly one 1.
        unit: whether all values of the reference lie in [0, 1].
        normalized: whether all rows of the reference add up to 1.
        by_class: answers by the largest score.
        by_half: answers by the threshold 0.5, of probabilities.
        by_sign: answers by the threshold 0, of logits.
        errors: for each sample the mean absolute error of the reference and of the candidate, and
            the mean squared errors of both.
        scores: for each sample with one value its label and the values of both models.
        spread: of labels that are numbers.
        kept: predictions for a metric of the user's own.
    """

    samples: int = 0
    both: int = 0
    lost: int = 0
    gained: int = 0
    reference_error: Expansion = ()
    candidate_error: Expansion = ()
    change_sq: Expansion = ()
    rounded_error: Expansion = ()
    rounded_sq: Expansion = ()
    reading: Common = None
    zeros_and_ones: bool = True
    one_hot: bool = True
    unit: bool = True
    normalized: bool = True
    by_class: Answers = field(default_factory=Answers)
    by_half: Answers = field(default_factory=Answers)
    by_sign: Answers = field(default_factory=Answers)
    errors: Sketch = field(default_factory=Sketch)
    scores: Sketch = field(default_factory=Sketch)
    spread: Spread = field(default_factory=Spread)
    kept: Kept = field(default_factory=Kept)


def add_labels(one: LabelTotals, other: LabelTotals) -> LabelTotals:
    """The totals of both, without the evidence for readings that some sample rules out.

    Raises:
        InputError: they read their labels in different ways, or one is of an old report.
    """
    if one.samples and other.samples and (one.reading is None) != (other.reading is None):
        raise InputError(
            "answers against labels of an older report hold too little to be merged with those of "
            "this version. Validate the samples of the older report again."
        )
    merged = merge(one, other)
    if merged.reading == "":
        raise InputError(
            f"labels were read as {one.reading} first and as {other.reading} later: their shapes "
            "do not agree. Pass labels of one kind, or declare the task of the output."
        )
    return pruned(merged)


def pruned(totals: LabelTotals) -> LabelTotals:
    """Without the evidence for readings that are ruled out: the same for any split of the data."""
    if not totals.zeros_and_ones:
        totals = replace(totals, one_hot=False)
        totals = replace(totals, by_half=Answers(), by_sign=Answers())
        if totals.reading == ROWS:
            totals = replace(totals, by_class=Answers())
        elif totals.reading == VALUES:
            totals = replace(totals, scores=Sketch())
    if not totals.one_hot and totals.reading == ROWS:
        totals = replace(totals, by_class=Answers())
    if not totals.unit:
        totals = replace(totals, by_half=Answers(), normalized=False)
    found = totals.by_class
    if not found.single:  # some batch had samples with one answer by chance
        totals = replace(totals, by_class=replace(found, both=0, lost=0, gained=0))
    return totals


def settled(totals: LabelTotals) -> str:
    """The kind of labels, from the flags that hold for all samples."""
    reading = totals.reading or ""
    if is_class_ids(reading) or reading == IDS:
        return CLASS_IDS
    if reading not in (ROWS, VALUES):
        return reading
    if not totals.zeros_and_ones:
        return REGRESSION
    if reading == VALUES:
        return BINARY
    return ONE_HOT if totals.one_hot and not _independent(totals) else MULTI_LABEL


def _independent(totals: LabelTotals) -> bool:
    return totals.unit and not totals.normalized


def answers_of(totals: LabelTotals) -> Answers | None:
    """The answers of the kind that labels turned out to be; None for numbers."""
    kind = settled(totals)
    if kind in (CLASS_IDS, ONE_HOT):
        return totals.by_class
    if kind in (BINARY, MULTI_LABEL):
        return totals.by_half if totals.unit else totals.by_sign
    return None
