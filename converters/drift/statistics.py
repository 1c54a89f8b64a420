"""Exact and paired statistics: the proof that samples give of a rate or a difference.

SciPy is imported where it is used: reading a budget must not load it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# A search for the number of samples that would decide ends here: beyond it the advice is idle.
MOST_SAMPLES = 10**8


def binomial_bounds(events: int, trials: int, confidence: float) -> tuple[float, float]:
    """One-sided exact bounds on a rate, each at `confidence` (Clopper and Pearson 1934).

    Zero events of n give an upper bound of 1 - (1 - confidence)**(1/n), about 3/n at 95 %.

    Returns:
        Lower and upper bound.
    """
    from scipy.special import betaincinv

    lower = float(betaincinv(events, trials - events + 1, 1 - confidence)) if events else 0.0
    if events == trials:
        return lower, 1.0
    return lower, float(betaincinv(events + 1, trials - events, confidence))


def mcnemar(lost: int, gained: int) -> float:
    """Two-sided exact p-value that lost and gained answers are equally likely (McNemar 1947).

    Under that hypothesis each of the discordant samples is a fair coin: the p-value is twice the
    smaller tail. (`scipy.stats` has this test, too, and takes half a second to import.)
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(lost, gained), lost + gained, 0.5)))


def paired_difference(
    lost: float, gained: float, samples: int, confidence: float
) -> tuple[float, float]:
    """Bounds on the accuracy drop (lost - gained) / samples, each one-sided at `confidence`.

    Tango's score interval for paired proportions ("Equivalence test and confidence interval for
    the difference in proportions for the paired-sample design", Statistics in Medicine 17, 1998):
    the drops that a score test does not reject. Unlike Wald's interval it has a width when no
    answer changed: z**2 / (samples + z**2). The two bounds together are the interval of two
    one-sided tests (TOST, Schuirmann 1987).
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    z = float(ndtri(confidence))
    observed = (lost - gained) / samples

    def bound(side: int) -> float:
        def excess(drop: float) -> float:
            return side * _score(lost, gained, samples, drop) + z

        edge = side * (1 - 1e-12)
        if excess(observed) <= 0:  # at a confidence of one half
            return observed
        return float(brentq(excess, observed, edge, xtol=1e-12)) if excess(edge) < 0 else edge

    lower = -1.0 if gained == samples else bound(-1)
    return lower, (1.0 if lost == samples else bound(+1))


def drop_at_most(lost: float, gained: float, samples: int, drop: float, confidence: float) -> bool:
    """Whether the upper bound of `paired_difference` is at most `drop`, found without a search."""
    from scipy.special import ndtri

    return lost < samples and _score(lost, gained, samples, drop) <= -float(ndtri(confidence))


def _score(lost: float, gained: float, samples: int, drop: float) -> float:
    """Tango's statistic for the hypothesis that the true drop is `drop`."""
    variation = drop * (1 - drop)
    # The most likely rate of gained answers if the drop is `drop`: root of a x**2 + b x + c.
    a = 2 * samples
    b = (2 * samples - lost + gained) * drop - lost - gained
    c = -gained * variation
    gained_rate = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = samples * (2 * gained_rate + variation)
    difference = lost - gained - samples * drop
    if variance > 0:
        return difference / math.sqrt(variance)
    return math.copysign(math.inf, difference) if difference else 0.0


def fewest_samples(decides: Callable[[int], bool], at_least: int) -> int | None:
    """The smallest number of samples for which `decides` holds, assuming it then goes on holding.

    Args:
        decides: whether that many samples at the observed rates would decide.
        at_least: the number of samples that there are, which does not decide.

    Returns:
        The number; None if not even `MOST_SAMPLES` would decide.
    """
    low, high = at_least, max(2 * at_least, 2)
    while not decides(high):
        if high >= MOST_SAMPLES:
            return None
        low, high = high, min(2 * high, MOST_SAMPLES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Clustered:
    """A rate over decisions that belong together by sample; c and d are those of one sample.

    Attributes:
        samples: number of samples that hold a decision.
        decisions: sum of d.
        changed: sum of c.
        changed_sq: sum of c * c.
        changed_decisions: sum of c * d.
        decisions_sq: sum of d * d.
        repeated: how often a sample occurs on average; copies are no evidence.
    """

    samples: int
    decisions: int
    changed: int
    changed_sq: int
    changed_decisions: int
    decisions_sq: int
    repeated: float = 1.0

    @property
    def rate(self) -> float:
        """The share of decisions that changed."""
        return self.changed / self.decisions if self.decisions else 0.0

    @property
    def effective(self) -> float:
        """The number of independent decisions that are worth as much as these.

        It is rate (1 - rate) over the variance of the rate as a ratio of sums over samples. At a
        rate of 0 or 1 that says nothing, and a sample counts as one decision.
        """
        samples = self.samples / self.repeated
        if self.decisions == self.samples or samples <= 1:
            return samples
        rate = self.rate
        if not 0 < self.changed < self.decisions:
            return samples
        # Integers first: the terms nearly cancel where all samples have the same rate.
        spread = (
            self.changed_sq * self.decisions**2
            - 2 * self.changed * self.changed_decisions * self.decisions
            + self.changed**2 * self.decisions_sq
        )
        variance = spread / self.decisions**4 * self.repeated * samples / (samples - 1)
        most = self.decisions / self.repeated
        return min(most, rate * (1 - rate) / variance) if variance > 0 else most

    def bounds(self, confidence: float) -> tuple[float, float]:
        """One-sided bounds on the rate, each at `confidence`.

        Exact ones (Clopper and Pearson 1934) for as many independent decisions as these are worth,
        fewer still for the degrees of freedom in their variance (Korn and Graubard 1998,
        "Confidence intervals for proportions with small expected number of positive counts").
        """
        from scipy.special import betaincinv, stdtrit

        trials = self.effective
        if not trials:
            return 0.0, 1.0
        samples = self.samples / self.repeated
        if self.decisions != self.samples and 0 < self.changed < self.decisions and samples > 1:
            most = self.decisions / self.repeated
            if confidence > 0.5:
                ratio = stdtrit(max(most, samples) - 1, confidence) / stdtrit(
                    samples - 1, confidence
                )
                trials = max(1.0, trials * ratio**2)
        events = self.rate * trials
        lower = float(betaincinv(events, trials - events + 1, 1 - confidence)) if events else 0.0
        if self.changed == self.decisions:
            return lower, 1.0
        return lower, float(betaincinv(events + 1, trials - events, confidence))


# Shares of the largest stake, and the weights of the players that keep to them.
_STAKES = (1.0, *(2.0**-power for power in range(1, 9)))
_WEIGHTS = (0.5, *[1 / 16] * 8)


def mean_at_most(values: "np.ndarray", confidence: float) -> float:
    """An upper bound on the mean of numbers in [0, 1] that assumes nothing of their distribution.

    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2023): who
    bets at fair odds against a mean of m grows rich only if the mean is smaller. Here nine players
    with fixed stakes share one capital, so the order of the numbers has no effect. Without a number
    above 0 the bound is (2 / (1 - confidence)) ** (1 / n) - 1, about 3.7 / n at 95 %.

    Args:
        values: one-dimensional.
        confidence: confidence of the bound.
    """
    import numpy as np

    wanted = -math.log1p(-confidence)
    low, high = float(values.mean()) if len(values) else 0.0, 1.0

    def wealth(mean: float) -> float:
        with np.errstate(divide="ignore"):
            logs = [
                math.log(weight) + float(np.log1p(stake / (1 - mean) * (mean - values)).sum())
                for stake, weight in zip(_STAKES, _WEIGHTS, strict=True)
            ]
        return float(np.logaddexp.reduce(logs))

    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if wealth(middle) >= wanted else (middle, high)
    return high
