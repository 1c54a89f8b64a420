"""Totals of one output over batches, in a form that merges exactly.

Every field is an integer, a maximum, a flag or an exact sum (`exact.py`). Within one sample values
are summed by NumPy in float64; across samples nothing is rounded. So any split of the data into
batches or shards, merged in any order, gives the same `Totals`, bit for bit.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfmp.converters.drift.decisions import (
    Decisions,
    by_argmax,
    by_equality,
    by_threshold,
)
from tfmp.converters.drift.detection import are_boxes, by_boxes, in_pairs
from tfmp.converters.drift.distances import TotalsFields, measure_distances
from tfmp.converters.drift.exact import Common, Expansion, merge
from tfmp.converters.drift.scores import centred, without_masks
from tfmp.converters.drift.sketch import Sketch
from tfmp.converters.drift.tasks import AMOUNTS, IDS, YES_OR_NO, Kind, Task, is_floating
from tfmp.converters.drift.views import Evidence
from tfmp.converters.drift.wrapping import aligned


@dataclass(frozen=True)
class Totals:
    """Everything counted about one output of a candidate, over some set of samples.

    Differences, sums and maxima cover the values that are finite on both sides; the others are
    counted by kind and are never averaged.

    Attributes:
        dtype: dtype of the reference's output; "" if batches disagreed.
        samples: number of samples: rows of the batch axis.
        values: number of elements.
        error_sq: sum of (candidate - reference)**2.
        reference_sq: sum of reference**2.
        candidate_sq: sum of candidate**2.
        max_abs: largest |candidate - reference|.
        worst_rel_l2: largest relative L2 error of a single sample.
        nonfinite: values that are not finite in the candidate but in the reference, or NaN in the
            candidate and infinite in the reference.
        reference_nan: values that are NaN in the reference and not in the candidate.
        infinite_lost: values that are infinite in the reference, and finite or of the other sign
            in the candidate.
        saturated: values at the largest FP16 value in the candidate, and beyond it in the
            reference.
        measured: values that are finite on both sides.
        unit: whether every reference value lay in [0, 1].
        both_nan: values that are NaN on both sides, which are left aside. A sample that has no
            others is left aside as a whole: `samples` and `values` do not count it.
        argmax: decisions for the largest score, where they were counted.
        half: decisions of probabilities at 0.5, valid if `unit` holds.
        zero: decisions of logits at 0.
        equality: decisions for a value itself.
        boxes: detections, each with its counterpart or without, valid if `detections` holds.
        detections: whether all rows are detections, as declared or by `are_boxes`.
        unmatched: rows that only one side has, of the samples that have other numbers of rows on
            both sides.
        above: whether all values of the reference are above 0.
        below: whether all of them are below 0.
        whole: whether all values of both sides are whole numbers, of an output of unknown meaning.
        evidence: values of both sides, where a view reads them.
        rows: for each distinct sample its L2 error, and the L2 norm of its reference.
    """

    dtype: Common = None
    samples: int = 0
    values: int = 0
    error_sq: Expansion = ()
    reference_sq: Expansion = ()
    candidate_sq: Expansion = ()
    max_abs: float = 0.0
    worst_rel_l2: float = 0.0
    nonfinite: int = 0
    reference_nan: int = 0
    infinite_lost: int = 0
    saturated: int = 0
    measured: int = 0
    unit: bool = True
    both_nan: int = 0
    argmax: Decisions = field(default_factory=Decisions)
    half: Decisions = field(default_factory=Decisions)
    zero: Decisions = field(default_factory=Decisions)
    equality: Decisions = field(default_factory=Decisions)
    boxes: Decisions = field(default_factory=Decisions)
    detections: bool = True
    unmatched: Decisions = field(default_factory=Decisions)
    above: bool = True
    below: bool = True
    whole: bool = True
    evidence: Evidence = field(default_factory=Evidence)
    rows: Sketch = field(default_factory=Sketch)


# Kinds whose numbers a view reads, and those that integers are amounts for, such as grey levels.
NUMBERS = AMOUNTS | {Kind.OTHER}
_VIEWED = (NUMBERS | YES_OR_NO) - {Kind.DETECTION}


# Values of one output that are measured together: of more, what is computed from them in float64
# would fill the memory rather than the caches.
_TOGETHER = 2**18


def measure(
    reference: np.ndarray,
    candidate: np.ndarray,
    task: Task | None = None,
    keys: np.ndarray | None = None,
    unread: np.ndarray | None = None,
) -> Totals:
    """Compares one batch of one output.

    Args:
        reference: values of any shape and dtype; axis 0 is the batch.
        candidate: values of the same shape.
        task: what the output means; None if nothing tells it.
        keys: a key for each sample, see `Sketch`; None to keep no rows of samples.
        unread: flags of places that nobody reads, with an axis of 1 for classes; None for none.
    """
    one, other = reference, candidate

    def of(rows: Any) -> Totals:
        rest = (None if each is None else each[rows] for each in (keys, unread))
        return measure(one[rows], other[rows], task, *rest)

    samples = len(reference) if reference.ndim else 1
    step = max(1, _TOGETHER * samples // max(1, reference.size))
    if samples > step:
        return merge(*(of(slice(start, start + step)) for start in range(0, samples, step)))
    dtype = str(reference.dtype)
    if task is not None and task.kind in NUMBERS and reference.dtype.kind in "iub":
        reference, candidate = reference.astype(np.float64), candidate.astype(np.float64)
    if not is_floating(reference.dtype):
        return _measure_equality(reference, candidate, keys, unread)
    reference, candidate = _real(reference), _real(candidate)
    empty = _without_numbers(reference, candidate)
    if empty.any():
        aside = Totals(dtype=dtype, both_nan=reference[empty].size)
        return aside if empty.all() else merge(aside, of(~empty))
    if unread is not None:
        reference, candidate = _blank(unread, reference), _blank(unread, candidate)
    return _measure_numbers(dtype, reference, candidate, task, keys, unread)


# Least and largest of numbers, and of none.
_ENDS = ((np.fmin, np.inf), (np.fmax, -np.inf))


def _measure_numbers(
    dtype: str,
    reference: np.ndarray,
    candidate: np.ndarray,
    task: Task | None,
    keys: np.ndarray | None,
    unread: np.ndarray | None,
) -> Totals:
    """Compares real numbers of samples that have some; `dtype` is what they were before."""
    kind, axis = (None, -1) if task is None else (task.kind, task.axis)
    masked = None
    if task is not None and kind in (Kind.ANGLE, Kind.QUATERNION):
        reference, candidate = aligned(reference, candidate, task)
    low, high = (reduced.reduce(reference, axis=None, initial=start) for reduced, start in _ENDS)
    if kind is Kind.CLASSIFICATION:
        reference, candidate, masked = without_masks(reference, candidate, axis, low)
    found: TotalsFields = {
        "detections": kind is Kind.DETECTION or (kind is None and are_boxes(reference)),
    }
    if found["detections"] and reference.ndim > 1:
        columns = task.columns if task is not None else ()
        one, other = (np.moveaxis(values, axis, -1) for values in (reference, candidate))
        found["boxes"] = by_boxes(one, other, columns)
        if reference.shape != candidate.shape:  # distances of those that have a counterpart
            one, other = in_pairs(reference[0], candidate[0])
            reference, candidate = one[None], other[None]
    found["unit"] = bool(low >= 0 and high <= 1)
    one, other = reference, candidate
    if masked is not None:
        one, other = (np.where(masked, 0, values) for values in (reference, candidate))
    distances, error_sq, reference_sq = measure_distances(one, other)
    one, other = reference, candidate
    if distances["both_nan"]:  # what no side has is never the best
        both = np.isnan(reference) & np.isnan(candidate)
        one, other = (np.where(both, -np.inf, values) for values in (reference, candidate))
    if kind is Kind.CLASSIFICATION:
        error_sq, reference_sq = centred(reference, candidate, axis, error_sq, reference_sq, masked)
    # From 2**23 on every number of float32 is whole, and tells nothing.
    telling = task is None and max(high, -low) * np.finfo(reference.dtype).eps < 1
    whole = telling and _are_whole(reference) and _are_whole(candidate)
    if reference.size:
        found |= _decisions(one, other, task, found["unit"], unread)
        if whole:
            found["equality"] = by_equality(reference, candidate)
    return Totals(
        dtype=dtype,
        samples=len(reference),
        values=reference.size,
        **distances,
        **found,
        above=bool(low > 0),
        below=bool(high < 0),
        whole=whole,
        evidence=_evidence(reference, candidate, task, keys),
        rows=_rows(keys, np.sqrt(error_sq), np.sqrt(reference_sq)),
    )


def _are_whole(values: np.ndarray) -> bool:
    """Whether all numbers are whole; one of the first is not, as a rule."""
    return all(bool((part == np.rint(part)).all()) for part in (values[:1], values[1:]))


def _evidence(
    reference: np.ndarray, candidate: np.ndarray, task: Task | None, keys: np.ndarray | None
) -> Evidence:
    """The values that views read; none of class scores."""
    if keys is None or not (task is None or task.kind in _VIEWED):
        return Evidence()
    return Evidence.of(keys, reference, candidate, task.axis if task else -1)


def _rows(keys: np.ndarray | None, error: np.ndarray, norm: np.ndarray) -> Sketch:
    """The rows of one batch.

    Args:
        keys: a key for each sample; None to keep no rows.
        error: L2 error of each sample.
        norm: L2 norm of each reference.
    """
    if keys is None or len(keys) != len(error):
        return Sketch()
    return Sketch.of(keys, [error, norm])


def _without_numbers(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Flags of the samples that are NaN throughout, on both sides."""
    if not reference.size or reference.shape != candidate.shape:
        return np.zeros(len(reference), bool)
    sides = [values.reshape(len(values), -1) for values in (reference, candidate)]
    empty = np.isnan(sides[0][:, 0]) & np.isnan(sides[1][:, 0])
    for at in np.flatnonzero(empty):  # only these can be
        empty[at] = all(np.isnan(values[at]).all() for values in sides)
    return empty


def _blank(unread: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Scores that say nothing at places that nobody reads, but for NaN and infinities there."""
    classes = values.size // max(1, unread.size)
    even = values.dtype.type(1 / classes if classes > 1 else 0)
    return np.where(unread & np.isfinite(values), even, values)


def _real(array: np.ndarray) -> np.ndarray:
    """With a batch axis, complex numbers as pairs of reals, dtypes NumPy cannot reduce widened."""
    array = np.ascontiguousarray(np.atleast_1d(array))
    if array.dtype.kind == "c":
        return array.view(array.real.dtype).reshape(*array.shape, 2)
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def _decisions(
    reference: np.ndarray,
    candidate: np.ndarray,
    task: Task | None,
    unit: bool,
    unread: np.ndarray | None,
) -> dict[str, Decisions]:
    """The readings of an output as decisions that its task allows, or that it may have."""
    kind, axis = (None, -1) if task is None else (task.kind, task.axis)
    decided = {}
    if kind in (Kind.CLASSIFICATION, None) and reference.ndim > 1 and reference.shape[axis] > 1:
        by_place = unread if unread is not None and unread.shape[axis] == 1 else None
        sides = reference, candidate, axis
        decided["argmax"] = by_argmax(*sides, by_place, guess=kind is None)
    if kind in YES_OR_NO:
        each = unread if unread is not None and unread.shape == reference.shape else None
        decided["zero"] = by_threshold(reference, candidate, 0.0, each)
        if unit:
            decided["half"] = by_threshold(reference, candidate, 0.5, each)
    if kind in IDS:
        decided["equality"] = by_equality(reference, candidate)
    return decided


def _measure_equality(
    reference: np.ndarray,
    candidate: np.ndarray,
    keys: np.ndarray | None,
    unread: np.ndarray | None,
) -> Totals:
    reference, candidate = np.atleast_1d(reference), np.atleast_1d(candidate)
    if unread is not None:
        candidate = np.where(unread, reference, candidate)
    nothing = np.zeros(len(reference))
    return Totals(
        dtype=str(reference.dtype),
        samples=len(reference),
        values=reference.size,
        equality=by_equality(reference, candidate, unread),
        rows=_rows(keys, nothing, nothing),
    )
