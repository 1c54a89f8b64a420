"""Exact and paired statistics: the proof that samples give of a rate or a difference.

SciPy is imported where it is used: reading a budget must not load it.
"""

import math
from collections.abc import Callable

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

    Under that hypothesis each of the discordant samples is a fair coin.
    """
    from scipy.stats import binomtest

    return float(binomtest(lost, lost + gained, 0.5).pvalue) if lost + gained else 1.0


def paired_difference(
    lost: int, gained: int, samples: int, confidence: float
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
        return float(brentq(excess, observed, edge, xtol=1e-12)) if excess(edge) < 0 else edge

    lower = -1.0 if gained == samples else bound(-1)
    return lower, (1.0 if lost == samples else bound(+1))


def _score(lost: int, gained: int, samples: int, drop: float) -> float:
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


def mean_bounds(
    mean: float, sum_of_squares: float, samples: int, confidence: float
) -> tuple[float, float]:
    """One-sided bounds on a mean, each at `confidence` (Student's t).

    Args:
        mean: mean of the observed values.
        sum_of_squares: sum of the squares of the observed values (not of their deviations).
        samples: number of observed values.
        confidence: confidence of each bound.
    """
    from scipy.special import stdtrit

    if samples < 2:
        return -math.inf, math.inf
    variance = max(0.0, sum_of_squares - samples * mean * mean) / (samples - 1)
    half = float(stdtrit(samples - 1, confidence)) * math.sqrt(variance / samples)
    return mean - half, mean + half


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
