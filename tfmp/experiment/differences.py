"""Paired differences over seeds: what they prove, and how many seeds a proof would take."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# Each bound holds with this confidence; the two together are a test of equivalence by two one-sided
# tests (TOST, Schuirmann 1987) at 5 %.
CONFIDENCE = 0.95

# A number of seeds is advised with which a true difference as large as the one seen is proven with
# this probability.
_POWER = 0.8

# Beyond it the advice is idle.
MOST_SEEDS = 1000


class Finding(StrEnum):
    """What the seeds say about an arm and the base."""

    AS_GOOD = "as good"
    WORSE = "worse"
    BETTER = "better"
    OPEN = "open"


@dataclass(frozen=True)
class Difference:
    """An arm's metric minus the base's, over seeds that both ran with.

    Attributes:
        seeds: number of pairs.
        mean: mean difference; above 0 the arm is better.
        low, high: one-sided bounds on the true mean, each at `CONFIDENCE`; infinite for one seed.
        margin: the difference that does not matter.
        seeds_needed: number of seeds with which arms that truly differ by `mean` are told apart, or
            found to be as good, four times in five; None if it is above 1,000, or for one seed.
    """

    seeds: int
    mean: float
    low: float
    high: float
    margin: float
    seeds_needed: int | None

    @property
    def finding(self) -> Finding:
        """What follows: "as good" is not worse by the margin, and not better by it either."""
        if self.low > self.margin:
            return Finding.BETTER
        if self.low > -self.margin:
            return Finding.AS_GOOD
        return Finding.WORSE if self.high < -self.margin else Finding.OPEN


def paired_difference(
    arm: Sequence[float], base: Sequence[float], margin: float, resolution: float
) -> Difference:
    """The difference of two arms from the metrics of the same seeds.

    Args:
        arm, base: metrics, higher is better, one for each seed.
        margin: the difference that does not matter.
        resolution: the smallest difference that the test samples can show. Differences over a few
            seeds may all be equal by chance: their standard deviation counts as at least this.
    """
    differences = [one - other for one, other in zip(arm, base, strict=True)]
    count, mean = len(differences), statistics.fmean(differences)
    if count < 2:
        return Difference(count, mean, -math.inf, math.inf, margin, None)
    deviation = max(statistics.stdev(differences), resolution)
    half = _half_width(deviation, count)
    return Difference(
        count, mean, mean - half, mean + half, margin, _enough(mean, deviation, margin)
    )


def _half_width(deviation: float, count: int, confidence: float = CONFIDENCE) -> float:
    """Distance of a one-sided bound from the mean, by Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, confidence)) * deviation / math.sqrt(count)


def _enough(mean: float, deviation: float, margin: float) -> int | None:
    """The smallest number of seeds whose bounds lie on one side of the margin with `_POWER`.

    The mean of new seeds differs from the true one, too: room for the bound would do half the time.
    """
    room = abs(mean + margin)
    for count in range(2, MOST_SEEDS + 1):
        if _half_width(deviation, count) + _half_width(deviation, count, _POWER) < room:
            return count
    return None
