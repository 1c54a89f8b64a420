"""Measures how well reference and candidate answer one batch of labelled samples."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfmp.converters.drift import Sketch, fold
from tfmp.converters.drift.labels.counts import GROUPS, Counts
from tfmp.converters.drift.labels.custom import CustomMetric, MetricError
from tfmp.converters.drift.labels.kept import Arrays, Kept, keep
from tfmp.converters.drift.labels.reading import (
    BINARY,
    CUSTOM,
    IDS,
    MULTI_LABEL,
    ONE_HOT,
    REGRESSION,
    ROWS,
    VALUES,
    class_axis,
    is_class_ids,
    missing,
    no_answer,
    no_class,
    normalized,
    one_hot,
    one_value,
    zeros_and_ones,
)
from tfmp.converters.drift.labels.spread import Spread
from tfmp.converters.drift.labels.totals import Answers, LabelTotals, pruned
from tfmp.converters.shared.errors import InputError

TOP = 5


def measure_labels(
    reading: str,
    labels: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    name: str,
    keys: np.ndarray | None = None,
) -> LabelTotals:
    """Measures one batch.

    Args:
        reading: see `reading.read_labels`.
        labels: labels of the batch.
        reference: the reference's output.
        candidate: the candidate's output.
        name: the output's name in messages.
        keys: uint64 of shape (samples,); None for no statistics by sample.

    Raises:
        InputError: a class id beyond the output's classes, or rows of another kind than before.
    """
    samples = len(labels)
    if is_class_ids(reading):
        by_class = _by_class_id(reading, labels, reference, candidate, name, keys)
        return LabelTotals(samples, reading=reading, by_class=by_class)
    labels = labels.reshape(reference.shape)
    if reading == IDS:
        both = [ids.reshape(samples, -1).astype(np.int64) for ids in (reference, candidate)]
        by_class = _answers(labels.reshape(samples, -1), both, keys)
        return LabelTotals(samples, reading=reading, by_class=by_class)
    known = ~missing(labels).reshape(samples, -1).all(axis=1)
    if not known.all():
        labels, reference, candidate = labels[known], reference[known], candidate[known]
        keys = None if keys is None else keys[known]
        samples = len(labels)
        if samples == 0:
            return LabelTotals(reading=reading)
    unread = no_answer(labels) | missing(labels)
    binary = zeros_and_ones(labels[~unread])
    reference, candidate = _wide(reference), _wide(candidate)
    found = LabelTotals(
        samples,
        reading=reading,
        zeros_and_ones=binary,
        one_hot=binary and not unread.any() and one_hot(labels),
        unit=bool(((reference >= 0) & (reference <= 1)).all()),
        normalized=normalized(reference),
    )
    _check_rows(reading, found, name)
    if reading in (ROWS, VALUES, REGRESSION) and not (binary and unread.any()):
        found = _with_errors(found, labels, reference, candidate, keys)
    if binary and reading in (ROWS, ONE_HOT) and found.one_hot:
        truth = labels.argmax(axis=-1)
        found = replace(found, by_class=_by_score(truth, reference, candidate, keys))
    if binary and reading in (ROWS, VALUES, BINARY, MULTI_LABEL):
        sides = [
            _by_threshold(threshold, labels, ~unread, reference, candidate, keys)
            for threshold in (0.5, 0)
        ]
        found = replace(found, by_half=sides[0], by_sign=sides[1])
        if keys is not None and one_value(reference):
            columns = [array.reshape(samples) for array in (labels, reference, candidate)]
            found = replace(found, scores=Sketch.of(keys, columns))
    return pruned(found)


def _check_rows(reading: str, found: LabelTotals, name: str) -> None:
    if reading == ONE_HOT and not found.one_hot:
        raise InputError(
            f"labels for output {name!r} were declared as of one class each, but a row does not "
            "hold exactly one 1. Pass class ids, or one-hot rows throughout."
        )
    if reading in (BINARY, MULTI_LABEL) and not found.zeros_and_ones:
        raise InputError(
            f"labels for output {name!r} were declared as {reading} and hold numbers other than 0 "
            "and 1. Pass zeros and ones, or declare the output as regression."
        )


def _wide(output: np.ndarray) -> np.ndarray:
    """In a dtype that NumPy reduces."""
    return output if output.dtype.kind == "f" else output.astype(np.float32)


def _by_class_id(
    reading: str,
    labels: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    name: str,
    keys: np.ndarray | None,
) -> Answers:
    axis = class_axis(reading, reference.ndim)
    classes = reference.shape[axis]
    reference, candidate = (np.moveaxis(_wide(a), axis, -1) for a in (reference, candidate))
    numbers = labels.reshape(reference.shape[:-1])
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
    return _by_score(np.where(outside, -1, ids), reference, candidate, keys)


def _by_score(
    truth: np.ndarray, reference: np.ndarray, candidate: np.ndarray, keys: np.ndarray | None
) -> Answers:
    """Answers by the largest score of the last axis; a truth of -1 is no label."""
    samples, classes = len(truth), reference.shape[-1]
    top = None
    if truth.ndim == 1 and classes > TOP:
        top = [_among_best(truth, scores) for scores in (reference, candidate)]
    both = [_largest(scores).reshape(samples, -1) for scores in (reference, candidate)]
    return _answers(truth.reshape(samples, -1), both, keys, top)


def _largest(scores: np.ndarray) -> np.ndarray:
    """The class with the largest score; -1 where a score is NaN, which names no class."""
    best = scores.argmax(axis=-1)
    # argmax takes a NaN for the largest.
    undefined = np.isnan(np.take_along_axis(scores, best[..., None], axis=-1)[..., 0])
    return np.where(undefined, -1, best)


def _among_best(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Whether the true class is among the best; of equal scores the first one is the better."""
    own = np.take_along_axis(scores, truth[:, None], axis=1)
    before = np.arange(scores.shape[1]) < truth[:, None]
    ahead = np.count_nonzero((scores > own) | ((scores == own) & before), axis=1)
    return (ahead < TOP) & ~np.isnan(scores).any(axis=1)


def _answers(
    truth: np.ndarray,
    both: Sequence[np.ndarray],
    keys: np.ndarray | None,
    top: Sequence[np.ndarray] | None = None,
) -> Answers:
    """Answers of both models, of shape (samples, answers); a truth of -1 is no label."""
    reference, candidate = both
    known = truth >= 0
    right_reference, right_candidate = (
        (answer == truth) & known for answer in (reference, candidate)
    )
    columns = [part.sum(axis=1) for part in (known, right_reference, right_candidate)]
    counts = Counts()
    if keys is not None:
        classes = truth, reference, candidate, truth, truth
        chosen = known, known & (reference >= 0), known & (candidate >= 0)
        counts = _counts(classes, (*chosen, right_reference, right_candidate), keys)
    return _of_columns(columns, truth.shape[1] == 1, keys, counts, top)


def _counts(
    classes: Sequence[np.ndarray], chosen: Sequence[np.ndarray], keys: np.ndarray
) -> Counts:
    """Counts of the classes that are chosen for each kind, all of shape (samples, answers)."""
    groups = (keys % np.uint64(GROUPS)).astype(np.int64)[:, None]
    groups = np.broadcast_to(groups, classes[0].shape)
    return Counts.of(
        *((kind[some], groups[some]) for kind, some in zip(classes, chosen, strict=True))
    )


def _of_columns(
    columns: Sequence[np.ndarray],
    single: bool,
    keys: np.ndarray | None,
    counts: Counts,
    top: Sequence[np.ndarray] | None = None,
) -> Answers:
    """Answers from the numbers of labelled and right answers by sample."""
    _, reference, candidate = columns
    none = np.zeros(len(reference))
    rows = Sketch() if keys is None else Sketch.of(keys, [*columns, *(top or (none, none))])
    return Answers(
        single=single,
        ranked=top is not None,
        both=int(np.count_nonzero((reference > 0) & (candidate > 0))) if single else 0,
        lost=int(np.count_nonzero(reference > candidate)) if single else 0,
        gained=int(np.count_nonzero(candidate > reference)) if single else 0,
        labelled=int(columns[0].sum()),
        right_reference=int(reference.sum()),
        right_candidate=int(candidate.sum()),
        rows=rows,
        counts=counts,
    )


def _by_threshold(
    threshold: float,
    labels: np.ndarray,
    known: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray | None,
) -> Answers:
    """Answers yes and no; a column of the last axis is a class, if there are columns."""
    samples = len(labels)
    truth, *answers = (
        array.reshape(samples, -1) >= level
        for array, level in ((labels, 1), (reference, threshold), (candidate, threshold))
    )
    known = known.reshape(samples, -1)
    truth, answers = truth & known, [answer & known for answer in answers]
    columns = [known.sum(axis=1)]
    columns += [((answer == truth) & known).sum(axis=1) for answer in answers]
    # NaN is on no side of a threshold.
    for index, array in enumerate((reference, candidate), start=1):
        undefined = np.isnan(array.reshape(samples, -1))
        if undefined.any():
            columns[index] = columns[index] - (undefined & ~truth & known).sum(axis=1)
    counts = Counts()
    if keys is not None and truth.shape[1] > 1:
        width = labels.shape[-1] if labels.ndim in (2, 4, 5) else 1
        tags = np.broadcast_to(np.arange(truth.shape[1]) % width, truth.shape)
        counts = _counts([tags] * 5, (truth, *answers, *(truth & side for side in answers)), keys)
    return _of_columns(columns, truth.shape[1] == 1, keys, counts)


def _with_errors(
    found: LabelTotals,
    labels: np.ndarray,
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray | None,
) -> LabelTotals:
    samples = len(labels)
    target = labels.astype(np.float64).reshape(samples, -1)
    known = ~missing(target)
    counts = known.sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = [
            np.where(known, np.abs(output.astype(np.float64).reshape(samples, -1) - target), 0)
            for output in (reference, candidate, reference.astype(np.float16))
        ]
        absolute = [error.sum(axis=1) / counts for error in errors]
        squared = [(error * error).sum(axis=1) / counts for error in errors]
        change = absolute[1] - absolute[0]
        return replace(
            found,
            reference_error=fold(absolute[0].tolist()),
            candidate_error=fold(absolute[1].tolist()),
            change_sq=fold((change * change).tolist()),
            rounded_error=fold(absolute[2].tolist()),
            rounded_sq=fold(squared[2].tolist()),
            errors=Sketch() if keys is None else Sketch.of(keys, [*absolute[:2], *squared[:2]]),
            spread=Spread.of(
                labels.reshape(labels.shape if labels.ndim > 1 else (samples, 1))[known.all(axis=1)]
            ),
        )


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
    with np.errstate(invalid="ignore", over="ignore"):
        change = other - one
        return LabelTotals(
            len(one),
            reference_error=fold(one.tolist()),
            candidate_error=fold(other.tolist()),
            change_sq=fold((change * change).tolist()),
            reading=reading,
            errors=Sketch.of(keys, [one, other]),
            kept=Kept(metric),
        )


# Errors of programs, which more samples do not heal.
_MISTAKES = (TypeError, NameError, AttributeError, KeyError, ImportError)
