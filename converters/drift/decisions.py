"""Decisions that follow from an output: the class, the label or the id, and how many change.

Rounding moves every score, and where two classes are as good as equal it decides between them: no
format could keep such an answer. So a change is *firm* if the reference itself told the two answers
apart by more than `TIE`; the others are counted and judged more gently.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from tfmp.converters.drift.classes import ClassTable, count_classes, count_labels
from tfmp.converters.drift.statistics import binomial_p, clustered_bounds
from tfmp.shared.numerics import ulp

# Two answers are a tie if their probabilities differ by less than 2 %, or their logits by 0.02,
# which is the same ratio.
TIE = 0.02

# A row is probabilities if it lies in [0, 1] and adds up to 1 within this: FP32 softmax rows do so
# within far less, FP16 ones within about classes * 2**-12.
ROW_SUM_TOLERANCE = 1e-3

# Differences that are smaller than this share of a sample's range say nothing of unknown numbers.
_LITTLE = 0.005


@dataclass(frozen=True)
class Decisions:
    """Counted decisions of one output, and those that changed; they merge exactly.

    Attributes:
        samples: number of samples.
        decisions: number of decisions.
        changed: decisions that are others in the candidate.
        changed_samples: samples with such a decision.
        changed_sq: sum over samples of the square of their changed decisions.
        decisions_sq: sum over samples of the square of their decisions.
        firm: changed decisions that were no ties in the reference.
        classes: the firm changes by class.
        near: changed integers that are next to what they were, as far as FP16 tells them apart.
    """

    samples: int = 0
    decisions: int = 0
    changed: int = 0
    changed_samples: int = 0
    changed_sq: int = 0
    decisions_sq: int = 0
    firm: int = 0
    classes: ClassTable = field(default_factory=ClassTable)
    near: int = 0

    @property
    def rate(self) -> float:
        """The share of decisions that changed."""
        return self.changed / max(1, self.decisions)

    @property
    def effective(self) -> float:
        """The number of samples of one size that would tell as much (Kish 1965)."""
        return self.decisions**2 / max(1, self.decisions_sq)

    def bounds(self, confidence: float, repeated: float = 1.0) -> tuple[float, float]:
        """Bounds on the rate, each one-sided; `repeated` is how often a sample occurs."""
        if not 0 <= self.changed <= self.decisions:  # of a document that was changed
            raise ValueError(f"{self.changed} of {self.decisions} decisions changed")
        return clustered_bounds(self.rate, self.share, self.effective / repeated, confidence)

    def p_over(self, limit: float, repeated: float = 1.0) -> float:
        """The p-value of the hypothesis that the rate is at most `limit`; see `bounds`."""
        trials = self.effective / repeated
        return binomial_p(self.rate * trials / self.share, trials, limit / self.share)

    @property
    def share(self) -> float:
        """The share of their decisions that changed in samples with changes, as if it were one."""
        if not self.changed:
            return 1.0
        spread = max(0.0, self.changed_sq - self.rate**2 * self.decisions_sq)
        share = self.rate + spread * self.effective / self.decisions / self.changed
        return min(1.0, max(share, self.rate))

    @property
    def without_ties(self) -> "Decisions":
        """The decisions with only those changes that were no ties."""
        if self.firm == self.changed:
            return self
        return replace(
            self, changed=self.firm, changed_sq=self.changed_sq * self.firm // self.changed
        )

    def seen_on(self, samples: int) -> "Decisions":
        """The same decisions, had they been seen on another number of samples."""
        scale = samples / self.samples
        counts = {
            name: round(getattr(self, name) * scale)
            for name in ("decisions", "changed", "changed_sq", "decisions_sq", "firm")
        }
        return replace(self, samples=samples, **counts)


def by_argmax(
    reference: np.ndarray,
    candidate: np.ndarray,
    axis: int,
    unread: np.ndarray | None = None,
    guess: bool = False,
) -> Decisions:
    """Decisions for the class with the largest score.

    Args:
        reference: scores, batch first.
        candidate: scores of the same shape.
        axis: the class axis.
        unread: flags of decisions that nobody reads, with an axis of 1 for the classes.
        guess: whether nobody knows that these are scores. Then what is small beside the whole
            sample is a tie: the largest of the numbers at the edge of a picture decides nothing.
    """
    one, other = (_classes_last(scores, axis) for scores in (reference, candidate))
    best, chosen = one.argmax(axis=2), other.argmax(axis=2)
    changed = best != chosen
    valid = None
    if unread is not None:
        valid = ~unread.reshape(best.shape)
        changed &= valid
        best, chosen = np.where(valid, best, -1), np.where(valid, chosen, -1)
    firm, where = np.zeros_like(changed), np.nonzero(changed)
    rows = one[where].astype(np.float64)
    index = np.arange(len(rows))
    with np.errstate(invalid="ignore"):
        high = rows[index, best[where]]
        lead = high - rows[index, chosen[where]]
        sums = np.abs(rows.sum(axis=1) - 1)
        probabilities = (rows.min(axis=1, initial=0.0) >= 0) & (sums <= ROW_SUM_TOLERANCE)
        firm[where] = lead > TIE * np.where(probabilities, high, 1.0)
        for sample in np.unique(where[0]).tolist() if guess else ():
            seen = one[sample][np.isfinite(one[sample])]
            here = where[0] == sample
            firm[sample, where[1][here]] &= lead[here] > _LITTLE * np.ptp(seen)
    return _counted(changed, firm, count_classes(best, chosen, firm, one.shape[2]), valid)


def _classes_last(scores: np.ndarray, axis: int) -> np.ndarray:
    """As (samples, decisions, classes)."""
    moved = np.moveaxis(scores, axis, -1)
    return moved.reshape(len(scores), -1, moved.shape[-1])


def by_threshold(
    reference: np.ndarray,
    candidate: np.ndarray,
    threshold: float,
    unread: np.ndarray | None = None,
) -> Decisions:
    """Decisions for or against each value: one label for each place on the last axis.

    Args:
        reference: probabilities (threshold 0.5) or logits (threshold 0), batch first.
        candidate: values of the same shape.
        threshold: values from here on mean yes.
        unread: flags of values that nobody reads.
    """
    labels = reference.shape[-1] if reference.ndim > 1 else 1
    one, other = (values.reshape(len(values), -1) for values in (reference, candidate))
    yes, said = one >= threshold, other >= threshold
    changed, valid = yes != said, None
    if unread is not None:
        valid = ~unread.reshape(yes.shape)
        yes, said, changed = yes & valid, said & valid, changed & valid
    firm, where = changed.copy(), np.nonzero(changed)
    # The logit of p is about 4 (p - 0.5) near 0.5.
    firm[where] = np.abs(one[where] - threshold) > (TIE / 4 if threshold else TIE)
    classes = count_labels(*(flags.reshape(len(one), -1, labels) for flags in (yes, said, firm)))
    return _counted(changed, firm, classes, valid)


def by_equality(
    reference: np.ndarray, candidate: np.ndarray, unread: np.ndarray | None = None
) -> Decisions:
    """Decisions for the very value: integers, booleans, texts, or ids written as floats."""
    flat = len(reference), math.prod(reference.shape[1:])  # -1 is no size where nothing is
    one, other = (values.reshape(flat) for values in (reference, candidate))
    if one.dtype.kind == "f":
        one, other = np.rint(one), np.rint(other)
        changed = (one != other) & ~(np.isnan(one) & np.isnan(other))
    else:
        changed = np.asarray(one != other, bool)
    values, place = np.unique(np.concatenate([one.ravel(), other.ravel()]), return_inverse=True)
    place = place.reshape(2, *one.shape)
    names = [_name(value) for value in values.tolist()]
    valid = None
    if unread is not None:
        valid = ~unread.reshape(changed.shape)
        place = np.where(valid, place, -1)
    classes = count_classes(place[0], place[1], changed, names)
    near = _count_near(one[changed], other[changed]) if one.dtype.kind in "iuf" else 0
    return replace(_counted(changed, changed, classes, valid), near=near)


def _count_near(reference: np.ndarray, candidate: np.ndarray) -> int:
    """Integers that differ by one, or by two spacings of FP16."""
    one, other = reference.astype(np.float64), candidate.astype(np.float64)
    return int(np.count_nonzero(np.abs(other - one) <= np.maximum(1.0, 2 * ulp(one))))


def _name(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _counted(
    changed: np.ndarray, firm: np.ndarray, classes: ClassTable, valid: np.ndarray | None = None
) -> Decisions:
    samples, each = changed.shape
    made = np.full(samples, each) if valid is None else np.count_nonzero(valid, axis=1)
    counted = count_decisions(np.count_nonzero(changed, axis=1), made)
    return replace(counted, firm=int(np.count_nonzero(firm)), classes=classes)


def count_decisions(changed: np.ndarray, made: np.ndarray) -> Decisions:
    """The sums over samples, none of them of ties.

    Args:
        changed: (samples,), the changed decisions of each.
        made: all of its decisions.
    """
    return Decisions(
        samples=int(np.count_nonzero(made)),
        decisions=int(made.sum()),
        changed=int(changed.sum()),
        changed_samples=int(np.count_nonzero(changed)),
        changed_sq=int(np.square(changed.astype(np.int64)).sum()),
        decisions_sq=int(np.square(made.astype(np.int64)).sum()),
        firm=int(changed.sum()),
    )
