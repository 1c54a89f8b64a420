"""Totals of answers against labels over batches, in a form that merges exactly."""

from dataclasses import dataclass, field, replace

import numpy as np

from tfmp.converters.drift import ClassTable, Common, Expansion, Sketch, merge
from tfmp.converters.drift.labels.kept import Kept
from tfmp.converters.shared.errors import InputError

# Samples fall into groups by their keys, whatever batch or shard they came in; leaving out one
# group at a time shows how much a score depends on the choice of the samples.
GROUPS = 64

# The kinds of counts, see `Answers.classes`.
TRUE, REFERENCE, CANDIDATE, REFERENCE_RIGHT, CANDIDATE_RIGHT = range(5)
_KINDS = 5


@dataclass(frozen=True)
class Answers:
    """Answers that are right or wrong.

    Attributes:
        single: whether each sample has one answer.
        lost: samples with one answer that only the reference has right.
        gained: samples with one answer that only the candidate has right.
        labelled: answers with a label.
        right_reference: those that the reference has right.
        right_candidate: those that the candidate has right.
        rows: for each sample its `labelled`, `right_reference` and `right_candidate`.
        classes: for each class and group of samples the values that have the class in the labels,
            in the answers of each model, and in both (the answers that are right).
    """

    single: bool = True
    lost: int = 0
    gained: int = 0
    labelled: int = 0
    right_reference: int = 0
    right_candidate: int = 0
    rows: Sketch = field(default_factory=Sketch)
    classes: ClassTable = field(default_factory=ClassTable)

    @property
    def table(self) -> np.ndarray:
        """Counts of shape (classes, groups, kinds)."""
        return np.array(list(self.classes.rows.values()), np.int64).reshape(-1, GROUPS, _KINDS)


@dataclass(frozen=True)
class LabelTotals:
    """Sums over labelled samples; they merge exactly, like `totals.Totals`.

    Attributes:
        samples: number of labelled samples.
        reference_error: sum over samples of the reference's mean absolute error (regression).
        candidate_error: the same sum for the candidate.
        reading: way to read the labels, from their shape.
        zeros_and_ones: whether labels that may be numbers are all 0 or 1; of yes and no also -1.
        unit: whether all values of the reference lie in [0, 1].
        by_class: answers by the largest score.
        by_half: answers by the threshold 0.5, of probabilities.
        by_sign: answers by the threshold 0, of logits.
        errors: for each sample the mean absolute error of the reference and of the candidate, and
            the mean squared errors of both; then the standard deviation of its labels if they
            are one quantity, and their mean, or 0 and the labels of its columns.
        scores: for each sample with one value its label and the values of both models.
        kept: predictions for a metric of the user's own.
    """

    samples: int = 0
    reference_error: Expansion = ()
    candidate_error: Expansion = ()
    reading: Common = None
    zeros_and_ones: bool = True
    unit: bool = True
    by_class: Answers = field(default_factory=Answers)
    by_half: Answers = field(default_factory=Answers)
    by_sign: Answers = field(default_factory=Answers)
    errors: Sketch = field(default_factory=Sketch)
    scores: Sketch = field(default_factory=Sketch)
    kept: Kept = field(default_factory=Kept)

    @property
    def by_threshold(self) -> Answers:
        """Answers of yes and no."""
        return self.by_half if self.unit else self.by_sign


def add_labels(one: LabelTotals, other: LabelTotals) -> LabelTotals:
    """The totals of both.

    Raises:
        InputError: they read their labels in different ways.
    """
    merged = merge(one, other)
    if merged.reading == "":
        raise InputError(
            f"labels were read as {one.reading} first and as {other.reading} later: their shapes "
            "do not agree. Pass labels of one kind, or declare the task of the output."
        )
    # Some batches may hold probabilities, or one answer a sample, by chance.
    merged = merged if merged.unit else replace(merged, by_half=Answers())
    found = merged.by_class
    return merged if found.single else replace(merged, by_class=replace(found, lost=0, gained=0))
