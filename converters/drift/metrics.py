"""Metrics of the drift of one output: their definitions, and an accumulator for batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.decisions import Decisions
from tfmp.converters.drift.exact import total
from tfmp.converters.drift.statistics import binomial_bounds
from tfmp.converters.drift.tasks import DECLARED, IDS, YES_OR_NO, Kind, Task
from tfmp.converters.drift.totals import Totals
from tfmp.converters.drift.views import (
    BETWEEN_SAMPLES,
    HALF,
    Table,
    View,
    near_end,
    outlying,
    place_view,
    tables_of,
    views_of,
    without_ends,
)

# How a sample is decided, and so what counts as a flip.
ARGMAX = "argmax"
THRESHOLD = "threshold 0.5"
THRESHOLD_ZERO = "threshold 0"
EQUALITY = "equality"
BOXES = "boxes"

# The field of `Totals` that counts each.
_READINGS = {
    ARGMAX: "argmax",
    THRESHOLD: "half",
    THRESHOLD_ZERO: "zero",
    EQUALITY: "equality",
    BOXES: "boxes",
}

# What an output means that nothing is known of.
OTHER = Task(Kind.OTHER, why="its meaning is unknown")

# What an output means whose values are whole numbers in both models.
WHOLE = "all of its values are whole numbers"
_WHOLE = Task(Kind.IDS, why=WHOLE)


@dataclass(frozen=True)
class OutputDrift:
    """Distance between reference r and candidate c on one output, over all samples.

    Sums run over every value that is finite on both sides. A value that is finite on one side only
    makes the distances infinite: it is never averaged away.

    Attributes:
        name: the reference's name of the output.
        dtype: the reference's dtype.
        samples: number of compared samples.
        rel_l2: sqrt(sum (c - r)**2 / sum r**2). None for values that are compared by equality.
        worst_rel_l2: the largest rel_l2 of a single sample.
        max_abs: max |c - r|.
        sqnr_db: 10 log10(sum r**2 / sum (c - r)**2), signal to quantization noise; inf if equal.
        nonfinite: values of c that are NaN or infinite where r is not, or NaN where r is infinite.
        reference_nan: values of r that are NaN, which nothing can be compared with.
        infinite_lost: values of r that are infinite where c is finite or has the other sign.
        saturated: values of c at the largest FP16 value where r lies beyond it: clamped overflow.
        collapsed: whether c is zero throughout while r is not.
        decision: kind of answer that a flip changes: "argmax" (class scores), "threshold 0.5"
            (probabilities), "threshold 0" (logits of labels), "equality" (integers, booleans,
            strings, ids) or "boxes" (detections); None if the output decides nothing.
        flips: samples of which c decides anything differently from r; None without a decision.
        totals: sums that the metrics follow from; shards are merged through them.
        task: what the output means, and how that is known.
        known: the task as far as it was known before the values and labels were; None if it follows
            from them.
        decided: number of decisions (classes of tokens or pixels, labels, detections); None without
            a decision.
        changed: decisions that are others in the candidate.
        sample_rel_l2: error of a single sample, relative to its own size, that 95 % of the samples
            stay under; None without rows of samples. Samples that are small beside the others
            count as larger ones, see `sample_errors`.
        views: what the output loses in each view.
    """

    name: str
    dtype: str
    samples: int
    rel_l2: float | None
    worst_rel_l2: float | None
    max_abs: float | None
    sqnr_db: float | None
    nonfinite: int
    reference_nan: int
    infinite_lost: int
    saturated: int
    collapsed: bool
    decision: str | None
    flips: int | None
    totals: Totals
    task: Task = OTHER
    known: Task | None = None
    decided: int | None = None
    changed: int | None = None
    sample_rel_l2: float | None = None
    views: tuple[View, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether neither a declaration, nor the model, nor labels tell what the output means."""
        return self.known is None

    @property
    def decisions(self) -> Decisions | None:
        """The decisions that the task makes of the output, counted; None if it makes none."""
        return reading_of(self.decision, self.totals)


# What labels say of their output that are numbers.
_NUMBERS = Task(Kind.REGRESSION, why="its labels are numbers of its shape")


def drift_of(
    name: str, totals: Totals, known: Task | None = None, labels: str | None = None
) -> OutputDrift:
    """The metrics that follow from `totals`.

    Args:
        name: the output's name.
        totals: of all samples.
        known: what the output means, as far as the values and their labels do not say it.
        labels: "regression" if the output has labels that are numbers.
    """
    if not totals.unit:  # some batch was not: what the others counted at 0.5 means nothing
        totals = replace(totals, half=Decisions())
    if not totals.whole and not (known is not None and known.kind in IDS):
        totals = replace(totals, equality=Decisions())  # what some batches counted as names
    if not totals.detections:
        totals = replace(totals, boxes=Decisions())
    by_equality = totals.equality.samples > 0 and not totals.measured
    known = known or (_WHOLE if totals.whole and totals.equality.samples else None)
    guessed = known is None or (known.kind in YES_OR_NO and known.why != DECLARED)
    if guessed and labels == "regression":
        known = _NUMBERS
    distances = dict.fromkeys(_DISTANCES) if by_equality else _distances(totals)
    task = known if known is not None and not by_equality else _unknown(totals, by_equality)
    decision = _decision(task, totals)
    counted = reading_of(decision, totals)
    errors, aside = sample_errors(totals), totals.rows.keys[set_aside(totals)]
    return OutputDrift(
        name=name,
        dtype=totals.dtype or "",
        samples=totals.samples,
        **distances,
        **{name: getattr(totals, name) for name in _FAULTS},
        collapsed=_collapsed(totals),
        decision=decision,
        flips=counted.changed_samples if counted else None,
        totals=totals,
        task=task,
        known=known,
        decided=counted.decisions if counted else None,
        changed=counted.changed if counted else None,
        sample_rel_l2=float(np.quantile(errors, 0.95, method="higher")) if len(errors) else None,
        views=() if by_equality else output_views(tables_of(totals.evidence, aside), task),
    )


def set_aside(totals: Totals) -> np.ndarray:
    """Flags of the few rows of samples that are judged by themselves; none if they are not few.

    They break the default limit of a sample's own error, and are proven to be within that of their
    share. Everything else is looked at without them, unless they are most of the samples that stand
    out as much: rare events, which the output is there for.
    """
    limits = DriftBudget()
    error, norm = totals.rows.values[:, :2].T if len(totals.rows) else np.empty((2, 0))
    off = error > (limits.sample_rel_l2 or 0.0) * norm
    share = binomial_bounds(int(off.sum()), len(off), limits.confidence)[1] if off.any() else 1.0
    if share > (limits.flip_rate or 0.0) or _are_rare(totals, totals.rows.keys[off]):
        return np.zeros(len(off), bool)
    return np.asarray(off)


def _are_rare(totals: Totals, few: np.ndarray) -> bool:
    """Whether samples, by their keys, are most of those that stand out as much as one of them."""
    keys, size = outlying(totals.evidence)
    chosen = size[np.isin(keys, few)]
    among, of_all = ((each[:, None] >= chosen).sum(axis=0) for each in (chosen, size))
    return bool((2 * among > of_all).any())


def output_views(tables: Sequence[Table], task: Task) -> tuple[View, ...]:
    """What an output loses in each view that its task has a use for.

    Args:
        tables: its values.
        task: what it means; `OTHER` where nothing tells.
    """
    found: list[View | None] = []
    if task.kind is Kind.EMBEDDING:  # its columns have no meaning of their own
        found += [view for view in views_of(tables) if view.unit in ("", HALF)][:2]
    elif task.kind in YES_OR_NO:  # scores rank samples, whichever side of a threshold they are on
        ranks = [view for view in views_of(tables) if view.view == BETWEEN_SAMPLES]
        found += [view for view in ranks if not (view.unit and view.is_rounding)]
    elif task.kind in (Kind.OTHER, Kind.REGRESSION, Kind.RECONSTRUCTION, *_TURNING):
        own = task.kind in (Kind.REGRESSION, Kind.RECONSTRUCTION)
        certain = without_ends(tables)
        found += [*views_of(certain, own), place_view(certain)]
    if task.kind not in (*_TURNING, Kind.DETECTION):
        found.append(near_end(tables, task.kind in (Kind.OTHER, Kind.REGRESSION)))
    return tuple(view for view in found if view is not None)


_TURNING = (Kind.ANGLE, Kind.QUATERNION)

_DISTANCES = ("rel_l2", "worst_rel_l2", "max_abs", "sqnr_db")
_FAULTS = ("nonfinite", "reference_nan", "infinite_lost", "saturated")


def _distances(totals: Totals) -> dict[str, float]:
    if totals.nonfinite or totals.infinite_lost:
        return dict.fromkeys(_DISTANCES, math.inf) | {"sqnr_db": -math.inf}
    error_sq, reference_sq = total(totals.error_sq), total(totals.reference_sq)
    return {
        "rel_l2": math.sqrt(_ratio(error_sq, reference_sq)),
        "worst_rel_l2": totals.worst_rel_l2,
        "max_abs": totals.max_abs,
        "sqnr_db": _decibels(reference_sq, error_sq),
    }


def _ratio(error: float, signal: float) -> float:
    """error / signal, where no error is 0 whatever the signal, and an unknown one is infinite."""
    if error == 0:
        return 0.0
    return error / signal if signal > 0 and math.isfinite(error) else math.inf


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def _collapsed(totals: Totals) -> bool:
    return totals.candidate_sq == () and totals.reference_sq != () and not totals.nonfinite


def _unknown(totals: Totals, by_equality: bool) -> Task:
    """What an output means that nothing is known of."""
    if by_equality:
        return Task(Kind.IDS, why="its values are compared by equality")
    if totals.detections and totals.boxes.samples > 0 and totals.reference_sq:
        return Task(Kind.DETECTION, why="its rows are a box, a score and a class")
    return OTHER


def _decision(task: Task, totals: Totals) -> str | None:
    if totals.samples == 0:
        return None
    if task.kind is Kind.CLASSIFICATION:
        return ARGMAX
    if task.kind in IDS:
        return EQUALITY
    if task.kind in YES_OR_NO:
        return THRESHOLD if totals.unit else THRESHOLD_ZERO
    return BOXES if task.kind is Kind.DETECTION else None


def reading_of(decision: str | None, totals: Totals) -> Decisions | None:
    """The decisions of one kind, as they were counted."""
    field = _READINGS.get(decision or "")
    return getattr(totals, field) if field else None


# Samples that are small by chance count as large as this share of a typical one. A number that is
# positive and negative crosses zero by chance, and then an error within the budget of the whole,
# 0.01 of the root mean square, must not look like one of 0.1: 0.3 of the root mean square is about
# 0.45 of the median. Numbers of one sign and long vectors are small for a reason.
_CROSSING = 0.45

# Vectors of more numbers are hardly ever small by chance.
_FEW = 4

# A sample whose probabilities are all smaller says the same as one of zeros.
_NO_PROBABILITY = 0.01


def sample_errors(totals: Totals) -> np.ndarray:
    """The error of each distinct sample, relative to its own size, in the order of their keys.

    That is its L2 error over the L2 norm of its reference. Zeros have no size of their own, and
    count as the median of the others; numbers that cross zero, as at least a share of it.
    """
    rows = totals.rows
    if not len(rows):
        return np.empty(0)
    error, norm = rows.values[:, 0], rows.values[:, 1]
    typical = norm[np.isfinite(norm) & (norm > 0)]
    few = totals.values <= _FEW * totals.samples
    crosses = few and not (totals.above or totals.below)
    median = float(np.median(typical)) if len(typical) else 0.0
    floor = _CROSSING * median if crosses else 0.0
    if totals.half.samples > 0:
        floor = max(floor, _NO_PROBABILITY)
    norm = np.where(norm > 0, norm, median)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error == 0, 0.0, error / np.maximum(norm, floor))
    return np.where(np.isnan(relative), np.inf, relative)
