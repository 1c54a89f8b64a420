"""Measures how well reference and candidate answer one batch of labelled samples."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfmp.converters.drift import FEW_COLUMNS, MOST_CLASSES, ClassTable, Sketch, fold
from tfmp.converters.drift.labels.custom import CustomMetric, MetricError
from tfmp.converters.drift.labels.kept import Arrays, Kept, keep
from tfmp.converters.drift.labels.reading import (
    BINARY,
    CUSTOM,
    IDS,
    ONE_HOT,
    REGRESSION,
    class_axis,
    is_class_ids,
    left_out,
    no_class,
)
from tfmp.converters.drift.labels.totals import GROUPS, Answers, LabelTotals
from tfmp.converters.shared.errors import InputError

# Labels of yes and no, and of classes, lie between these: hinge losses have -1 for no.
_NO, _YES = -1, 1


def measure_labels(
    reading: str,
    labels: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    name: str,
    keys: np.ndarray,
    axis: int = -1,
    declared: bool = False,
) -> LabelTotals:
    """Measures one batch.

    Args:
        reading: see `reading.read_labels`.
        labels: labels of the batch.
        reference: the reference's output.
        candidate: the candidate's output.
        name: the output's name in messages.
        keys: uint64 of shape (samples,).
        axis: the axis of the classes of one-hot rows.
        declared: whether somebody said what the output means. Else labels of yes and no may turn
            out to be numbers, such as shares, so they are measured as these, too.

    Raises:
        InputError: a class id beyond the output's classes, or labels of yes and no that are other
            numbers.
    """
    if is_class_ids(reading):
        axis = class_axis(reading, reference.ndim)
        one, other = (np.moveaxis(_wide(each), axis, -1) for each in (reference, candidate))
        truth = _class_ids(labels.reshape(one.shape[:-1]), one.shape[-1], name)
        by_class = _by_score(truth, one, other, keys)
        return LabelTotals(len(labels), reading=reading, by_class=by_class)
    labels = labels.reshape(reference.shape)
    if reading == IDS:
        found = _answers(labels, reference, candidate, keys)
        return LabelTotals(len(labels), reading=reading, by_class=found)
    reference, candidate = _wide(reference), _wide(candidate)
    unread = left_out(reading, labels)
    known = ~unread.reshape(len(labels), -1).all(axis=1)
    if not known.all():
        labels, unread, keys = labels[known], unread[known], keys[known]
        reference, candidate = reference[known], candidate[known]
    if not len(labels):
        return LabelTotals(reading=reading)
    if reading == REGRESSION:
        return _numbers(reading, labels, ~unread, reference, candidate, keys)
    wrong = labels[~unread & ~((labels >= _NO) & (labels <= _YES))]
    if wrong.size and (declared or reading == ONE_HOT):
        raise InputError(
            f"labels for output {name!r} are of {reading} answers and hold {wrong[0]}; expected "
            "zeros and ones. Pass these, or declare the output as regression."
        )
    if reading == ONE_HOT:
        rows, one, other = (np.moveaxis(each, axis, -1) for each in (labels, reference, candidate))
        by_class = _by_score(rows.argmax(axis=-1), one, other, keys)
        return LabelTotals(len(labels), reading=reading, by_class=by_class)
    unit = bool(((reference >= 0) & (reference <= 1)).all())
    sides = labels, ~unread, reference, candidate, keys
    return replace(
        LabelTotals(len(labels), reading=reading) if declared else _numbers(reading, *sides),
        unit=unit,
        by_half=_by_threshold(0.5, *sides) if unit else Answers(),
        by_sign=_by_threshold(0, *sides),
        scores=Sketch.of(keys, [each.reshape(-1) for each in (labels, reference, candidate)])
        if reading == BINARY
        else Sketch(),
    )


def _wide(output: np.ndarray) -> np.ndarray:
    """In a dtype that NumPy reduces."""
    return output if output.dtype.kind == "f" else output.astype(np.float32)


def _class_ids(numbers: np.ndarray, classes: int, name: str) -> np.ndarray:
    """Labels as whole numbers, -1 for none."""
    fractions = numbers[numbers != np.rint(numbers)]
    if fractions.size:
        raise InputError(
            f"labels for output {name!r} hold {fractions[0]}, which is no class id; whole numbers "
            f"from 0 to {classes - 1} were expected. Pass class ids, or one-hot rows."
        )
    ids = numbers.astype(np.int64)
    outside = (ids < 0) | (ids >= classes)
    wrong = outside if ids.ndim == 1 else outside & ~no_class(ids, classes)
    if wrong.any():
        rest = "" if ids.ndim == 1 else ", and numbers below 0 or 255 where no class is meant"
        raise InputError(
            f"labels for output {name!r} hold class id {int(ids[wrong][0])}, but the output "
            f"has {classes} classes: ids 0 to {classes - 1} were expected{rest}. Check that labels "
            "and model use the same class list."
        )
    return np.where(outside, -1, ids)


def _by_score(
    truth: np.ndarray, reference: np.ndarray, candidate: np.ndarray, keys: np.ndarray
) -> Answers:
    """Answers by the largest score of the last axis; a truth of -1 is no label."""
    return _answers(truth, _largest(reference), _largest(candidate), keys)


def _largest(scores: np.ndarray) -> np.ndarray:
    """The class with the largest score; -1 where a score is NaN, which names no class."""
    return np.where(np.isnan(scores).any(axis=-1), -1, scores.argmax(axis=-1))


def _answers(
    truth: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray,
) -> Answers:
    """Answers of both models as class numbers; a truth of -1 is no label."""
    truth, *both = (
        each.reshape(len(each), -1).astype(np.int64) for each in (truth, reference, candidate)
    )
    known = truth >= 0
    right = [(answer == truth) & known for answer in both]
    chosen = known, *(known & (answer >= 0) for answer in both), *right
    counts = _counts((truth, *both, truth, truth), chosen, keys)
    return _of_columns(known, right, keys, counts)


def _counts(
    classes: Sequence[np.ndarray], chosen: Sequence[np.ndarray], keys: np.ndarray
) -> ClassTable:
    """Counts of the classes that are chosen for each kind, all of shape (samples, answers)."""
    groups = np.broadcast_to((keys % np.uint64(GROUPS)).astype(int)[:, None], classes[0].shape)
    pairs = [(kind[some], groups[some]) for kind, some in zip(classes, chosen, strict=True)]
    size = 1 + max(int(kind.max(initial=-1)) for kind, _ in pairs)
    if size > MOST_CLASSES or min(kind.min(initial=0) for kind, _ in pairs) < 0:
        return ClassTable(overfull=True)
    counts = [np.bincount(kind * GROUPS + group, minlength=size * GROUPS) for kind, group in pairs]
    return ClassTable.of(np.stack(counts, axis=1).reshape(size, -1), size)


def _of_columns(
    known: np.ndarray,
    right: Sequence[np.ndarray],
    keys: np.ndarray,
    classes: ClassTable,
) -> Answers:
    """Answers from flags of labelled and right ones, of shape (samples, answers)."""
    columns = [each.sum(axis=1) for each in (known, *right)]
    labelled, reference, candidate = columns
    single = known.shape[1] == 1
    return Answers(
        single=single,
        lost=int(np.count_nonzero(reference > candidate)) if single else 0,
        gained=int(np.count_nonzero(candidate > reference)) if single else 0,
        labelled=int(labelled.sum()),
        right_reference=int(reference.sum()),
        right_candidate=int(candidate.sum()),
        rows=Sketch.of(keys, columns),
        classes=classes,
    )


def _by_threshold(
    threshold: float,
    labels: np.ndarray,
    known: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray,
) -> Answers:
    """Answers yes and no; a column of the last axis is a class, if there are columns."""
    samples = len(labels)
    width = labels.shape[-1] if labels.ndim in (2, 4, 5) else 1
    truth, known, *both = (
        each.reshape(samples, -1) for each in (labels > 0.5, known, reference, candidate)
    )
    truth, answers = truth & known, [(each >= threshold) & known for each in both]
    # NaN is on no side of a threshold.
    right = [
        (answer == truth) & known & ~np.isnan(each)
        for answer, each in zip(answers, both, strict=True)
    ]
    counts = ClassTable()
    if truth.shape[1] > 1:
        tags = np.broadcast_to(np.arange(truth.shape[1]) % width, truth.shape)
        counts = _counts([tags] * 5, (truth, *answers, *(truth & side for side in answers)), keys)
    return _of_columns(known, right, keys, counts)


def _numbers(
    reading: str,
    labels: np.ndarray,
    known: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray,
) -> LabelTotals:
    samples = len(labels)
    target, known = labels.astype(np.float64).reshape(samples, -1), known.reshape(samples, -1)
    counts = known.sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = [
            np.where(known, np.abs(output.astype(np.float64).reshape(samples, -1) - target), 0)
            for output in (reference, candidate)
        ]
        absolute = [error.sum(axis=1) / counts for error in errors]
        squared = [(error * error).sum(axis=1) / counts for error in errors]
    answers = (0, 1) if reading == REGRESSION else (_NO, 0, _YES)
    return LabelTotals(
        samples,
        reading=reading,
        zeros_and_ones=bool((np.isin(target, answers) | ~known).all()),
        reference_error=fold(absolute[0].tolist()),
        candidate_error=fold(absolute[1].tolist()),
        errors=Sketch.of(keys, [*absolute, *squared, *_spread(target, known, labels.ndim)]),
    )


def _spread(target: np.ndarray, known: np.ndarray, rank: int) -> list[np.ndarray]:
    """What the spread of labels follows from: that within each sample, and columns."""
    target = np.where(known.all(axis=1, keepdims=True), target, np.nan)
    if rank <= 2 and target.shape[1] <= FEW_COLUMNS:
        return [np.zeros(len(target)), *target.T]
    return [target.std(axis=1), target.mean(axis=1)]


def measure_own(
    metric: CustomMetric, labels: Arrays, reference: Arrays, candidate: Arrays, keys: np.ndarray
) -> LabelTotals:
    """Measures one batch by a metric of the user's own, or keeps it until all samples are there.

    Args:
        metric: the metric.
        labels: labels, as the user passed them.
        reference: the reference's outputs: one array, or arrays by name.
        candidate: the candidate's in the same form.
        keys: uint64 of shape (samples,).

    Raises:
        InputError: the function is a mistake, whatever the samples are.
    """
    samples, reading = len(keys), f"{CUSTOM}: {metric.name}"
    values = []
    for model in (reference, candidate):
        try:
            values.append(metric(model, labels, samples))
        except MetricError as error:
            if isinstance(error.__cause__, _MISTAKES) and model is reference:
                raise InputError(f"{error} Fix the function.") from error
            break  # some metrics are undefined for few samples, or for NaN; all of them decide
        if isinstance(values[-1], float):
            break
    if len(values) < 2 or not all(isinstance(value, np.ndarray) for value in values):
        kept = keep(metric, keys, labels, reference, candidate)
        return LabelTotals(samples, reading=reading, kept=kept)
    one, other = (np.asarray(value) for value in values)
    # What has no value whatever the model answers, such as a photograph without objects.
    defined = ~(np.isnan(one) & np.isnan(other))
    one, other, keys = one[defined], other[defined], keys[defined]
    if not np.isfinite(one).all():
        raise InputError(
            f"metric {metric.name!r} gives {one[~np.isfinite(one)][0]} for a sample of the "
            "reference, and nothing can be compared with it. Let it return a number, or NaN for "
            "both models, which leaves the sample out."
        )
    return LabelTotals(
        len(one),
        reference_error=fold(one.tolist()),
        candidate_error=fold(other.tolist()),
        reading=reading,
        errors=Sketch.of(keys, [one, other]),
        kept=Kept(metric),
    )


# Errors of programs, which more samples do not heal.
_MISTAKES = (TypeError, NameError, AttributeError, KeyError, ImportError)
