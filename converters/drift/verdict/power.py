"""How many samples a verdict needs, told before there are any.

A rate is judged by exact bounds on distinct samples, and an accuracy by a bound on the answers that
were lost and gained. Both say in advance which counts PASS and which FAIL.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tfmp.converters.drift import (
    DriftBudget,
    binomial_bounds,
    difference_bounds,
    fewest_samples,
)

# Counts of changes for the worse and for the better that are told about.
_FLIPS = ((0, 0), (1, 0), (2, 0), (5, 0))
_ANSWERS = (*_FLIPS, (5, 5))

# Bounds on the true share, from changes for the worse and for the better and the samples.
_Bounds = Callable[[int, int, int], tuple[float, float]]


@dataclass(frozen=True)
class Seen:
    """A count of changes, and the numbers of samples at which it decides.

    Attributes:
        lost: changes for the worse; for a rate, all changes.
        gained: changes for the better; 0 for a rate.
        passes_from: smallest number of samples with a PASS; None if no number is enough.
        fails_up_to: largest number of samples with a FAIL; None if no number is a FAIL.
    """

    lost: int
    gained: int
    passes_from: int | None
    fails_up_to: int | None


@dataclass(frozen=True)
class Outlook:
    """What one limit asks of samples.

    Attributes:
        limit: name of the limit in the budget.
        value: of the limit.
        confidence: one-sided confidence of the bounds.
        seen: counts that decide.
        passes_with: largest count of changes with a PASS, at the number of samples that was asked
            for; None without one, or if no count is a PASS.
        fails_with: smallest count of changes with a FAIL, likewise.
    """

    limit: str
    value: float
    confidence: float
    seen: tuple[Seen, ...]
    passes_with: int | None
    fails_with: int | None


def flip_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the share of decisions that change asks of samples.

    Args:
        budget: its confidence and its smallest number of samples.
        limit: of the rate.
        samples: a number of distinct samples to tell about; None for none.
    """

    def bounds(lost: int, _: int, count: int) -> tuple[float, float]:
        return binomial_bounds(lost, count, budget.confidence)

    return _outlook(("flip_rate", limit), budget, bounds, _FLIPS, samples)


def accuracy_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the drop of accuracy asks of samples; see `flip_outlook`."""

    def bounds(lost: int, gained: int, count: int) -> tuple[float, float]:
        drop, error, degrees = (lost - gained) / count, None, count - 1
        if degrees:
            error = math.sqrt(max(0.0, (lost + gained) / count - drop * drop) / degrees)
        return difference_bounds(drop, error, budget.confidence, samples=count, degrees=degrees)

    return _outlook(("accuracy_drop", limit), budget, bounds, _ANSWERS, samples)


def _outlook(
    limit: tuple[str, float],
    budget: DriftBudget,
    bounds: _Bounds,
    counts: tuple[tuple[int, int], ...],
    samples: int | None,
) -> Outlook:
    """What a limit, given by name and value, on samples that change for the worse asks of them."""

    def passes(lost: int, gained: int, count: int) -> bool:
        enough = max(budget.min_samples, lost + gained)
        return count >= enough and bounds(lost, gained, count)[1] <= limit[1]

    def fails(lost: int, gained: int, count: int) -> bool:
        return bounds(lost, gained, count)[0] > limit[1]

    def seen(lost: int, gained: int) -> Seen:
        least = max(lost + gained, 1)
        passes_from = fewest_samples(lambda count: passes(lost, gained, count), 0)
        beyond = None
        if fails(lost, gained, least):
            beyond = fewest_samples(lambda count: not fails(lost, gained, count), least)
        return Seen(lost, gained, passes_from, None if beyond is None else beyond - 1)

    too_many = fails_with = None
    if samples is not None and passes(0, 0, samples):
        too_many = fewest_samples(lambda lost: not passes(lost, 0, samples), 0)
    if samples is not None and fails(samples, 0, samples):
        fails_with = fewest_samples(lambda lost: fails(min(lost, samples), 0, samples), 0)
    passes_with = None if too_many is None else too_many - 1
    told = tuple(seen(*each) for each in counts)
    return Outlook(*limit, budget.confidence, told, passes_with, fails_with)
