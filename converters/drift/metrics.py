"""Metrics of the drift of one output: their definitions, and an accumulator for batches."""

import math
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift.exact import merge, total
from tfmp.converters.drift.totals import Totals, measure

# How a sample is decided, and so what counts as a flip.
ARGMAX = "argmax"
THRESHOLD = "threshold 0.5"
EQUALITY = "equality"


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
        mean_abs: mean |c - r|.
        sqnr_db: 10 log10(sum r**2 / sum (c - r)**2), signal to quantization noise; inf if equal.
        cosine: sum r c / sqrt(sum r**2 * sum c**2).
        kl: mean KL(r || c) over rows of the last axis, nats, both floored at 2**-24 (the smallest
            positive FP16 value); None unless each row of r is a probability distribution.
        nonfinite: values of c that are NaN or infinite where r is not, or NaN where r is infinite.
        reference_nan: values of r that are NaN, which nothing can be compared with.
        infinite_lost: values of r that are infinite where c is finite or has the other sign.
        saturated: values of c at the largest FP16 value where r lies beyond it: clamped overflow.
        collapsed: whether c is the same for every sample while r is not, or all zeros while r is
            not.
        decision: kind of answer that a flip changes: "argmax" (rank 2, class scores), "threshold
            0.5" (probabilities that do not add up to 1, or one per sample), "equality" (integers,
            booleans, strings); None if the output decides nothing.
        flips: samples that c decides differently from r; None without a decision.
        top_k_agreement: share of r's 5 best classes that are among c's; None up to 5 classes.
        totals: sums that the metrics follow from; shards are merged through them.
    """

    name: str
    dtype: str
    samples: int
    rel_l2: float | None
    worst_rel_l2: float | None
    max_abs: float | None
    mean_abs: float | None
    sqnr_db: float | None
    cosine: float | None
    kl: float | None
    nonfinite: int
    reference_nan: int
    infinite_lost: int
    saturated: int
    collapsed: bool
    decision: str | None
    flips: int | None
    top_k_agreement: float | None
    totals: Totals


class OutputAccumulator:
    """Collects one output batch by batch; the result does not depend on split or order."""

    def __init__(self, name: str, totals: Totals | None = None) -> None:
        """Starts without samples, or from the `totals` of an earlier result."""
        self.name = name
        self._totals = totals if totals is not None else Totals()

    def update(self, reference: np.ndarray, candidate: np.ndarray) -> None:
        """Adds one batch: arrays of the same shape, batch axis first."""
        self._totals = merge(self._totals, measure(reference, candidate))

    def merge(self, other: "OutputAccumulator") -> None:
        """Adds the samples that `other` has seen."""
        self._totals = merge(self._totals, other._totals)

    def result(self) -> OutputDrift:
        """The metrics so far."""
        return drift_of(self.name, self._totals)


def drift_of(name: str, totals: Totals) -> OutputDrift:
    """The metrics that follow from `totals`."""
    by_equality = totals.unequal_rows > 0 or totals.ulps == ()
    distances = {} if by_equality else _distances(totals)
    decision = _decision(totals, by_equality)
    flips = {
        ARGMAX: totals.argmax_flips,
        THRESHOLD: totals.threshold_flips,
        EQUALITY: totals.unequal_rows,
    }
    return OutputDrift(
        name=name,
        dtype=totals.dtype or "",
        samples=totals.samples,
        rel_l2=distances.get("rel_l2"),
        worst_rel_l2=distances.get("worst_rel_l2"),
        max_abs=distances.get("max_abs"),
        mean_abs=distances.get("mean_abs"),
        sqnr_db=distances.get("sqnr_db"),
        cosine=distances.get("cosine"),
        kl=_kl(totals),
        nonfinite=totals.nonfinite,
        reference_nan=totals.reference_nan,
        infinite_lost=totals.infinite_lost,
        saturated=totals.saturated,
        collapsed=_collapsed(totals, by_equality),
        decision=decision,
        flips=flips[decision] if decision else None,
        top_k_agreement=(
            totals.top_k_hits / totals.top_k_slots
            if decision == ARGMAX and totals.top_k_slots
            else None
        ),
        totals=totals,
    )


def _distances(totals: Totals) -> dict[str, float]:
    if totals.nonfinite or totals.infinite_lost:
        infinite = ("rel_l2", "worst_rel_l2", "max_abs", "mean_abs")
        return dict.fromkeys(infinite, math.inf) | {"sqnr_db": -math.inf, "cosine": math.nan}
    error_sq, reference_sq = total(totals.error_sq), total(totals.reference_sq)
    compared = sum(totals.ulps)
    return {
        "rel_l2": math.sqrt(_ratio(error_sq, reference_sq)),
        "worst_rel_l2": totals.worst_rel_l2,
        "max_abs": totals.max_abs,
        "mean_abs": total(totals.error_abs) / compared if compared else 0.0,
        "sqnr_db": _decibels(reference_sq, error_sq),
        "cosine": _cosine(total(totals.dot), reference_sq, total(totals.candidate_sq)),
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


def _cosine(dot: float, reference_sq: float, candidate_sq: float) -> float:
    if reference_sq == candidate_sq == 0:
        return 1.0
    # Two square roots: the product of the squares could leave float64.
    length = math.sqrt(reference_sq) * math.sqrt(candidate_sq)
    if length == 0 or not math.isfinite(length):
        return 0.0 if length == 0 else math.nan
    return min(1.0, max(-1.0, dot / length))


def _kl(totals: Totals) -> float | None:
    if not (totals.unit and totals.normalized and totals.distributions):
        return None
    return total(totals.kl) / totals.distributions


def _collapsed(totals: Totals, by_equality: bool) -> bool:
    # A single sample makes both rows constant.
    constant = bool(totals.candidate_row) and not totals.reference_row
    zeros = not by_equality and totals.candidate_sq == () and totals.reference_sq != ()
    return constant or (zeros and not totals.nonfinite)


def _decision(totals: Totals, by_equality: bool) -> str | None:
    if totals.samples == 0:
        return None
    if by_equality:
        return EQUALITY
    if totals.class_scores:
        independent = totals.unit and not totals.normalized
        return THRESHOLD if independent else ARGMAX
    return THRESHOLD if totals.one_score and totals.unit else None
