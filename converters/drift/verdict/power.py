"""How many samples a verdict needs, told before there are any.

A rate is judged by exact bounds on distinct samples, and an accuracy by a bound on the answers that
were lost and gained. Both say in advance which counts PASS and which FAIL.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tfmp.converters.drift import (
    DriftBudget,
    binomial_bounds,
    difference_bounds,
    fewest_samples,
)

# Probabilities of a PASS that are planned for.
CHANCES = (0.8, 0.9)

_FLIPS = ((0, 0), (1, 0), (2, 0), (5, 0))
_ANSWERS = ((0, 0), (1, 0), (2, 0), (5, 0), (5, 5))
# True rates and shares of changed answers, as multiples of the limit.
_RATES = (0.0, 0.1, 0.25, 0.5)
_CHANGES = (0.0, 0.5, 1.0, 2.0, 5.0)

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


@dataclass(frozen=True)
class _Limit:
    """A limit on how many samples change for the worse.

    Attributes:
        budget: its confidence and its smallest number of samples.
        value: of the limit.
        bounds: on the true share, from changes for the worse and for the better and the samples.
    """

    budget: DriftBudget
    value: float
    bounds: Callable[[int, int, int], tuple[float, float]]

    def passes(self, lost: int, gained: int, count: int) -> bool:
        """Whether so many changes are a PASS."""
        enough = max(self.budget.min_samples, lost + gained)
        return count >= enough and self.bounds(lost, gained, count)[1] <= self.value

    def fails(self, lost: int, gained: int, count: int) -> bool:
        """Whether so many changes are a FAIL."""
        return self.bounds(lost, gained, count)[0] > self.value

    def passes_from(self, lost: int, gained: int = 0) -> int | None:
        """The smallest number of samples with a PASS; None if no number is enough."""
        return fewest_samples(lambda count: self.passes(lost, gained, count), 0)

    def fails_up_to(self, lost: int, gained: int) -> int | None:
        """The largest number of samples with a FAIL; None if no number is a FAIL."""
        least = max(lost + gained, 1)
        if not self.fails(lost, gained, least):
            return None
        found = fewest_samples(lambda count: not self.fails(lost, gained, count), least)
        return None if found is None else found - 1

    def most(self, changed: int, count: int, all_lost: bool = False) -> int | None:
        """The largest number of changes for the worse with a PASS; None if none is a PASS.

        Args:
            changed: of so many changes, of which the others are for the better.
            count: number of samples.
            all_lost: whether there are no others.
        """
        low, high = -1, changed + 1
        while high - low > 1:
            middle = (low + high) // 2
            passed = self.passes(middle, 0 if all_lost else changed - middle, count)
            low, high = (middle, high) if passed else (low, middle)
        return low if low >= 0 else None

    def outlook(
        self,
        name: str,
        seen: tuple[tuple[int, int], ...],
        truths: list[Chance],
        samples: int | None,
    ) -> Outlook:
        """What the limit asks of samples."""
        most = fails = None
        if samples is not None:
            most = self.most(samples, samples, all_lost=True)
            failing = range(samples + 1)
            fails = next((lost for lost in failing if self.fails(lost, 0, samples)), None)
        counts = tuple(
            Seen(*each, self.passes_from(*each), self.fails_up_to(*each)) for each in seen
        )
        confidence = self.budget.confidence
        return Outlook(name, self.value, confidence, counts, tuple(truths), most, fails)


def flip_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the share of decisions that change asks of samples.

    Args:
        budget: its confidence and its smallest number of samples.
        limit: of the rate.
        samples: a number of distinct samples to tell about; None for none.
    """
    rule = _Limit(budget, limit, lambda n, _, count: binomial_bounds(n, count, budget.confidence))

    def chance(rate: float, count: int) -> float:
        from scipy.special import bdtr

        allowed = rule.most(count, count, all_lost=True)
        return 0.0 if allowed is None else float(bdtr(allowed, count, rate))

    def enough(rate: float, wanted: float) -> int | None:
        """The samples from which on a PASS is likely, also just before one flip more is allowed."""

        def decides(flips: int) -> bool:
            after = rule.passes_from(flips + 1)
            return after is not None and chance(rate, after - 1) >= wanted

        if rate >= limit or rule.passes_from(0) is None:
            return None
        flips = 0 if decides(0) else fewest_samples(decides, 0)
        return None if flips is None else rule.passes_from(flips)

    truths = _chances(_RATES, limit, enough, chance, samples)
    return rule.outlook("flip_rate", _FLIPS, truths, samples)


def accuracy_outlook(budget: DriftBudget, limit: float, samples: int | None = None) -> Outlook:
    """What the limit on the drop of accuracy asks of samples; see `flip_outlook`."""

    def bounds(lost: int, gained: int, count: int) -> tuple[float, float]:
        drop, error, degrees = (lost - gained) / count, None, count - 1
        if degrees:
            error = math.sqrt(max(0.0, (lost + gained) / count - drop * drop) / degrees)
        return difference_bounds(drop, error, budget.confidence, samples=count, degrees=degrees)

    rule = _Limit(budget, limit, bounds)

    def chance(rate: float, count: int) -> float:
        from scipy.special import bdtr

        spread = _DEVIATIONS * (count * rate * (1 - rate)) ** 0.5
        low = max(0, int(count * rate - spread))
        found = before = 0.0
        for changed in range(low, min(count, int(count * rate + spread) + 1) + 1):
            upto = float(bdtr(changed, count, rate))
            most = rule.most(changed, count)
            if most is not None:
                found += (upto - before) * float(bdtr(most, changed, 0.5))
            before = upto
        return min(1.0, found)

    def enough(rate: float, wanted: float) -> int | None:
        return fewest_samples(lambda count: chance(rate, count) >= wanted, 1)

    truths = _chances(_CHANGES, limit, enough, chance, samples)
    return rule.outlook("accuracy_drop", _ANSWERS, truths, samples)


def _chances(
    multiples: tuple[float, ...],
    limit: float,
    enough: Callable[[float, float], int | None],
    chance: Callable[[float, int], float],
    samples: int | None,
) -> list[Chance]:
    return [
        Chance(
            rate,
            tuple(enough(rate, wanted) for wanted in CHANCES),
            None if samples is None else chance(rate, samples),
        )
        for rate in (multiple * limit for multiple in multiples)
        if rate <= 1
    ]
