"""How many samples a verdict needs, told before there are any.

A rate is judged by exact bounds on distinct samples, and an accuracy by Tango's bound on the
answers that were lost and gained. Both say in advance which counts PASS and which FAIL.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tfmp.converters.drift import (
    DriftBudget,
    Metric,
    binomial_bounds,
    drop_at_most,
    fewest_samples,
)

# Probabilities of a PASS that are planned for.
CHANCES = (0.8, 0.9)

_FLIPS = (0, 1, 2, 5)
_ANSWERS = ((0, 0), (1, 0), (2, 0), (5, 0), (5, 5))
# True rates and shares of changed answers, as multiples of the limit.
_RATES = (0.0, 0.1, 0.25, 0.5)
_CHANGES = (0.0, 0.5, 1.0, 2.0, 5.0)

# Values of both models, and their bounds: those of an accuracy follow from what changed.
_UNKNOWN = (math.nan,) * 4

# Standard deviations of a count that are looked at; what lies beyond has a probability of 1e-12.
_DEVIATIONS = 7


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
class Chance:
    """A truth, and how likely samples show it to be within the limit.

    Attributes:
        rate: the true share of samples that change; half of the answers that change are lost.
        samples: numbers of samples with a PASS in at least each share of `CHANCES` of all runs;
            None where no number is enough.
        chance: probability of a PASS with the number of samples that was asked for; None without
            one.
    """

    rate: float
    samples: tuple[int | None, ...]
    chance: float | None


@dataclass(frozen=True)
class Outlook:
    """What one limit asks of samples.

    Attributes:
        limit: name of the limit in the budget.
        value: of the limit.
        confidence: one-sided confidence of the bounds.
        seen: counts that decide.
        chances: truths, the smallest first.
        passes_with: largest count of changes with a PASS, at the number of samples that was asked
            for; None without one, or if no count is a PASS.
        fails_with: smallest count of changes with a FAIL, likewise.
    """

    limit: str
    value: float
    confidence: float
    seen: tuple[Seen, ...]
    chances: tuple[Chance, ...]
    passes_with: int | None
    fails_with: int | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def flip_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the share of decisions that change asks of samples.

    Args:
        budget: its confidence and its smallest number of samples.
        limit: of the rate.
        samples: a number of distinct samples to tell about; None for none.
    """

    def bounds(lost: int, gained: int, count: int) -> tuple[float, float]:
        return binomial_bounds(lost, count, budget.confidence)

    def most(count: int) -> int | None:
        """The largest number of flips that passes."""
        if not _enough(budget, count) or bounds(0, 0, count)[1] > limit:
            return None
        first = fewest_samples(lambda flips: bounds(min(flips, count), 0, count)[1] > limit, 0)
        return None if first is None else min(first, count + 1) - 1

    def chance(rate: float, count: int) -> float:
        from scipy.stats import binom

        allowed = most(count)
        return 0.0 if allowed is None else float(binom.cdf(allowed, count, rate))

    def enough(rate: float, wanted: float) -> int | None:
        """The samples from which on a PASS is likely, also just before one flip more is allowed."""

        def passing(flips: int) -> int | None:
            return _passes_from(budget, bounds, flips, 0, limit)

        def decides(flips: int) -> bool:
            after = passing(flips + 1)
            return after is not None and chance(rate, after - 1) >= wanted

        if rate >= limit or passing(0) is None:
            return None
        flips = 0 if decides(0) else fewest_samples(decides, 0)
        return None if flips is None else passing(flips)

    return Outlook(
        "flip_rate",
        limit,
        budget.confidence,
        tuple(_seen(budget, bounds, flips, 0, limit) for flips in _FLIPS),
        tuple(_chances(_RATES, limit, enough, chance, samples)),
        None if samples is None else most(samples),
        None if samples is None else _fails_with(bounds, samples, limit),
    )


def accuracy_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the drop of accuracy asks of samples; see `flip_outlook`."""

    def bounds(lost: int, gained: int, count: int) -> tuple[float, float]:
        seen = Metric("accuracy", *_UNKNOWN, True, count, "", lost=lost, gained=gained)
        return seen.bounds(budget.confidence)

    def passes(lost: int, gained: int, count: int) -> bool:
        return drop_at_most(lost, gained, count, limit, budget.confidence)

    def most_lost(changed: int, count: int) -> int:
        """The largest number of lost answers that passes among so many that change; -1 for none."""
        low, high = -1, changed + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if passes(middle, changed - middle, count) else (low, middle)
        return low

    def chance(rate: float, count: int) -> float:
        from scipy.stats import binom

        if not _enough(budget, count):
            return 0.0
        spread = _DEVIATIONS * (count * rate * (1 - rate)) ** 0.5
        low = max(0, int(count * rate - spread))
        found = 0.0
        for changed in range(low, min(count, int(count * rate + spread) + 1) + 1):
            passed = float(binom.cdf(most_lost(changed, count), changed, 0.5))
            found += float(binom.pmf(changed, count, rate)) * passed
        return min(1.0, found)

    def enough(rate: float, wanted: float) -> int | None:
        if not limit:
            return None
        return fewest_samples(lambda count: chance(rate, count) >= wanted, 1)

    most = None
    if samples is not None and _enough(budget, samples):
        lost = [count for count in range(samples + 1) if passes(count, 0, samples)][-1:]
        most = lost[0] if lost else None
    return Outlook(
        "accuracy_drop",
        limit,
        budget.confidence,
        tuple(_seen(budget, bounds, *answers, limit) for answers in _ANSWERS),
        tuple(_chances(_CHANGES, limit, enough, chance, samples)),
        most,
        None if samples is None else _fails_with(bounds, samples, limit),
    )


_Bounds = Callable[[int, int, int], tuple[float, float]]


def _enough(budget: DriftBudget, count: int) -> bool:
    return count >= budget.min_samples


def _seen(budget: DriftBudget, bounds: _Bounds, lost: int, gained: int, limit: float) -> Seen:
    return Seen(
        lost,
        gained,
        _passes_from(budget, bounds, lost, gained, limit),
        _fails_up_to(bounds, lost, gained, limit),
    )


def _passes_from(
    budget: DriftBudget, bounds: _Bounds, lost: int, gained: int, limit: float
) -> int | None:
    least = max(lost + gained, 1)
    found = fewest_samples(
        lambda count: count >= least and bounds(lost, gained, count)[1] <= limit, least - 1
    )
    return None if found is None else max(found, budget.min_samples)


def _fails_up_to(bounds: _Bounds, lost: int, gained: int, limit: float) -> int | None:
    least = max(lost + gained, 1)
    if not bounds(lost, gained, least)[0] > limit:
        return None
    found = fewest_samples(lambda count: not bounds(lost, gained, count)[0] > limit, least)
    return None if found is None else found - 1


def _fails_with(bounds: _Bounds, samples: int, limit: float) -> int | None:
    """The smallest number of changes, all for the worse, that fails."""
    if not bounds(samples, 0, samples)[0] > limit:
        return None
    return fewest_samples(lambda lost: bounds(min(lost, samples), 0, samples)[0] > limit, 0)


def _chances(
    multiples: tuple[float, ...],
    limit: float,
    enough: Callable[[float, float], int | None],
    chance: Callable[[float, int], float],
    samples: int | None,
) -> Iterator[Chance]:
    for multiple in multiples:
        rate = multiple * limit
        if rate <= 1:
            needed = tuple(enough(rate, wanted) for wanted in CHANCES)
            yield Chance(rate, needed, None if samples is None else chance(rate, samples))
