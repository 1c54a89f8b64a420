"""Exact and paired statistics: the proof that samples give of a rate or a difference.

SciPy is imported where it is used: reading a budget must not load it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

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

    Bounds are those of Gaffke ("Three test statistics for a nonparametric one-sided hypothesis on
    the mean of a nonnegative variable", Mathematical Methods of Statistics 14, 2005; Learned-Miller
    and Thomas, "A new confidence interval for the mean of a bounded random variable", 2019). To the
    samples that were seen they add one in which all decisions change, for the upper bound, or none,
    for the lower. A sample weighs as much as a random gap between uniform numbers, and the bounds
    are quantiles of the weighted mean. Where a sample changes altogether or not at all they are
    Clopper and Pearson's, and changes that nobody saw have their place where decisions change here
    and there, too. That they hold is proven in special cases, and in all others simulated
    (`benchmarks/verdict_coverage.py`).

    The samples enter as if some had the same share of changes and the others none, as many and as
    large as leave the mean and the variance as they are: then sums are enough. Where samples have
    different numbers of decisions, the sample that is added has as many as the one that a typical
    decision is from: sum of d * d over sum of d.

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
    def distinct(self) -> float:
        """The number of samples that are no copies."""
        return self.samples / self.repeated

    @property
    def _share(self) -> float:
        """The share of their decisions that changed in samples with changes, as if it were one."""
        # Integers first: the terms nearly cancel where all samples have the same rate.
        spread = (
            self.changed_sq * self.decisions**2
            - 2 * self.changed * self.changed_decisions * self.decisions
            + self.changed**2 * self.decisions_sq
        )
        return self.rate + spread * self.samples / (self.decisions**3 * self.changed)

    def lower(self, confidence: float) -> float:
        """The lower bound on the rate, at `confidence`."""
        from scipy.special import betaincinv

        if not self.changed:
            return 0.0
        share, trials = self._share, self.distinct
        events = min(trials, trials * self.rate / share)
        return share * float(betaincinv(events, trials - events + 1, 1 - confidence))

    def p_over(self, limit: float) -> float:
        """The p-value of the hypothesis that the rate is at most `limit`; see `lower`."""
        from scipy.special import betainc

        if not self.changed:
            return 1.0
        share, trials = self._share, self.distinct
        events = min(trials, trials * self.rate / share)
        return float(betainc(events, trials - events + 1, min(1.0, limit / share)))

    def upper(self, confidence: float, as_seen: bool = False) -> float:
        """The upper bound on the rate, at `confidence`; see `p_under`."""
        from scipy.optimize import brentq

        def excess(rate: float) -> float:
            return self.p_under(rate, as_seen) - (1 - confidence)

        return float(brentq(excess, 0.0, 1.0, xtol=1e-10)) if excess(1.0) < 0 else 1.0

    def p_under(self, limit: float, as_seen: bool = False) -> float:
        """The p-value of the hypothesis that the rate is at least `limit`.

        Args:
            limit: a rate.
            as_seen: whether samples that nobody saw change like those that were seen, and not
                altogether.
        """
        from scipy.special import betaincc

        if not self.decisions or self.changed == self.decisions:
            return 1.0
        trials = self.distinct
        lost = self.decisions_sq * self.samples / self.decisions**2
        if not self.changed:
            return max(0.0, 1 - limit / lost) ** trials
        share = self._share
        events = min(trials, trials * self.rate / share)
        added = share if as_seen else max(lost, share)
        if not 0 < limit < added:
            return float(limit <= 0)
        others = max(trials - events, 1e-9)
        place = min(1.0, limit / share)
        if added == share:
            return float(betaincc(events + 1, others, place))
        # Without the added sample, the weight of the samples with changes is a beta variable B; the
        # added one weighs more than w in (1 - w)**trials of all cases. With it the rate is over
        # the limit if share * B is, or if w is over (limit - share * B) / (added - share * B): an
        # integral over B that a substitution turns into another beta variable's.
        outweighed = (
            trials * math.log(added - limit)
            - others * math.log(added)
            - events * math.log(added - share)
            + _log_beta_cdf(events, others, place * (added - share) / (added - share * place))
        )
        return float(betaincc(events, others, place)) + math.exp(outweighed)

    def bounds(self, confidence: float) -> tuple[float, float]:
        """One-sided bounds on the rate, each at `confidence`."""
        return self.lower(confidence), self.upper(confidence)


# Probabilities below it are computed as logarithms.
_TINY = 1e-200


def _log_beta_cdf(a: float, b: float, x: float) -> float:
    """The logarithm of the regularized incomplete beta function, also where that is tiny."""
    from scipy.special import betainc, betaln

    found = float(betainc(a, b, x))
    if found > _TINY:
        return math.log(found)
    # NIST Digital Library of Mathematical Functions, 8.17.8.
    total, term, k = 1.0, 1.0, 0
    while term > 1e-16 * total:
        term *= x * (a + b + k) / (a + 1 + k)
        total, k = total + term, k + 1
    return a * math.log(x) + b * math.log1p(-x) - math.log(a) - betaln(a, b) + math.log(total)
