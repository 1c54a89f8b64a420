"""The answers of reference and candidate against labels, on the same samples."""

from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift.exact import Expansion, fold, total
from tfmp.converters.drift.statistics import mcnemar
from tfmp.converters.shared.errors import InputError

# How labels are written, and so what "right" means.
CLASS_IDS = "class ids"
ONE_HOT = "one-hot"
BINARY = "binary"
MULTI_LABEL = "multi-label"
REGRESSION = "regression"

ACCURACY = "accuracy"
MEAN_ABSOLUTE_ERROR = "mean absolute error"


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
    """

    samples: int = 0
    both: int = 0
    lost: int = 0
    gained: int = 0
    reference_error: Expansion = ()
    candidate_error: Expansion = ()
    change_sq: Expansion = ()


@dataclass(frozen=True)
class LabelDrift:
    """Reference and candidate against the labels of one output.

    Attributes:
        output: the reference's name of the output.
        kind: "class ids", "one-hot", "binary", "multi-label" (right when every label is) or
            "regression".
        metric: "accuracy", or "mean absolute error" for regression.
        samples: number of labelled samples.
        reference: the metric of the reference.
        candidate: the metric of the candidate.
        lost: samples that only the reference has right; None for regression.
        gained: samples that only the candidate has right; None for regression.
        mcnemar_p: exact two-sided p-value that lost and gained are equally likely; None for
            regression.
        totals: sums that the metrics follow from; shards are merged through them.
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


def label_drift(output: str, kind: str, totals: LabelTotals) -> LabelDrift:
    """The metrics that follow from `totals`."""
    samples = totals.samples
    if kind == REGRESSION:
        reference, candidate = total(totals.reference_error), total(totals.candidate_error)
    else:
        reference, candidate = totals.both + totals.lost, totals.both + totals.gained
    return LabelDrift(
        output=output,
        kind=kind,
        metric=MEAN_ABSOLUTE_ERROR if kind == REGRESSION else ACCURACY,
        samples=samples,
        reference=reference / samples if samples else 0.0,
        candidate=candidate / samples if samples else 0.0,
        lost=None if kind == REGRESSION else totals.lost,
        gained=None if kind == REGRESSION else totals.gained,
        mcnemar_p=None if kind == REGRESSION else mcnemar(totals.lost, totals.gained),
        totals=totals,
    )


def label_kind(labels: np.ndarray, output: np.ndarray, name: str) -> str:
    """The way to read `labels` for an output.

    Args:
        labels: labels of one batch, samples first.
        output: the reference's output for that batch.
        name: the output's name in messages.

    Raises:
        InputError: the labels fit no reading.
    """
    columns = output.shape[1] if output.ndim == 2 else None
    flat = labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] == 1)
    if columns is not None and columns > 1:
        if flat and labels.dtype.kind in "iub":
            return CLASS_IDS
        if labels.shape == output.shape and _zeros_and_ones(labels):
            return _rows_kind(labels, output, name)
    one_value = output.size == len(output)
    probability = one_value and output.dtype.kind == "f" and _probabilities(output)
    if probability and labels.size == len(labels) and _zeros_and_ones(labels):
        return BINARY
    if one_value and output.dtype.kind in "iu" and flat and labels.dtype.kind in "iub":
        return CLASS_IDS
    if labels.dtype.kind in "fiu" and output.dtype.kind == "f" and _same_values(labels, output):
        return REGRESSION
    raise InputError(
        f"labels do not fit output {name!r} of shape {_shape(output)}: received {labels.dtype} "
        f"of shape {_shape(labels)}; expected class ids (integers, one per sample), one-hot or "
        "multi-label rows (zeros and ones, one column per class) or regression targets (the "
        "output's shape). Pass labels in one of these forms, or leave them out."
    )


def _rows_kind(labels: np.ndarray, output: np.ndarray, name: str) -> str:
    """One-hot or multi-label: the output's row sums tell more than the labels of one batch."""
    independent = _probabilities(output) and not np.allclose(output.sum(axis=1), 1, atol=1e-2)
    if independent:
        return MULTI_LABEL
    if (labels.sum(axis=1) == 1).all():
        return ONE_HOT
    raise InputError(
        f"labels for output {name!r} have rows without a 1 or with several, so they are "
        "multi-label, but the output's values are not independent probabilities (0 to 1, as a "
        "sigmoid gives): a right answer is not defined. Give the model a sigmoid output, or leave "
        "the labels out."
    )


def _probabilities(output: np.ndarray) -> bool:
    return bool(((output >= 0) & (output <= 1)).all())


def _zeros_and_ones(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "iubf" and bool(((labels == 0) | (labels == 1)).all())


def _same_values(labels: np.ndarray, output: np.ndarray) -> bool:
    return labels.shape == output.shape or labels.size == output.size == len(output) == len(labels)


def _shape(array: np.ndarray) -> str:
    return f"({', '.join(['batch', *map(str, array.shape[1:])])})"


def measure_labels(
    kind: str, labels: np.ndarray, reference: np.ndarray, candidate: np.ndarray, name: str
) -> LabelTotals:
    """Counts one batch.

    Raises:
        InputError: a class id beyond the output's classes.
    """
    if kind == REGRESSION:
        return _measure_errors(labels, reference, candidate)
    truth = _truth(kind, labels, reference, name)
    right_reference = _right(kind, truth, reference)
    right_candidate = _right(kind, truth, candidate)
    return LabelTotals(
        samples=len(labels),
        both=int(np.count_nonzero(right_reference & right_candidate)),
        lost=int(np.count_nonzero(right_reference & ~right_candidate)),
        gained=int(np.count_nonzero(~right_reference & right_candidate)),
    )


def _truth(kind: str, labels: np.ndarray, reference: np.ndarray, name: str) -> np.ndarray:
    rows = len(labels)
    if kind == ONE_HOT:
        if not (labels.sum(axis=1) == 1).all():
            raise InputError(
                f"labels for output {name!r} began as one-hot rows, but a later row does not hold "
                "exactly one 1. Pass class ids, or one-hot rows throughout."
            )
        return labels.argmax(axis=1)
    if kind in (BINARY, MULTI_LABEL):
        return labels.reshape(rows, -1) > 0.5
    ids = labels.reshape(rows)
    if reference.ndim == 2 and reference.shape[1] > 1:
        classes = reference.shape[1]
        outside = (ids < 0) | (ids >= classes)
        if outside.any():
            raise InputError(
                f"labels for output {name!r} hold class id {int(ids[outside][0])}, but the output "
                f"has {classes} classes: ids 0 to {classes - 1} were expected. Check that labels "
                "and model use the same class list."
            )
    return ids


def _right(kind: str, truth: np.ndarray, output: np.ndarray) -> np.ndarray:
    rows = len(output)
    if kind in (BINARY, MULTI_LABEL):
        return ((output.reshape(rows, -1) >= 0.5) == truth).all(axis=1)
    if output.ndim == 2 and output.shape[1] > 1:
        # argmax picks a NaN as largest: such a row names no class.
        defined = ~np.isnan(output).any(axis=1)
        return defined & (output.argmax(axis=1) == truth)
    return output.reshape(rows) == truth


def _measure_errors(
    labels: np.ndarray, reference: np.ndarray, candidate: np.ndarray
) -> LabelTotals:
    rows = len(labels)
    target = labels.astype(np.float64).reshape(rows, -1)

    def error(output: np.ndarray) -> np.ndarray:
        wide = output.astype(np.float64).reshape(rows, -1)
        return np.abs(wide - target).mean(axis=1)

    with np.errstate(invalid="ignore", over="ignore"):
        reference_error, candidate_error = error(reference), error(candidate)
        change = candidate_error - reference_error
        return LabelTotals(
            samples=rows,
            reference_error=fold(reference_error.tolist()),
            candidate_error=fold(candidate_error.tolist()),
            change_sq=fold((change * change).tolist()),
        )
