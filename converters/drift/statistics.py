"""Exact and paired statistics: the proof that samples give of a rate or a difference.

SciPy is imported where it is used: reading a budget must not load it.
"""

import math
from collections.abc import Callable

import numpy as np

# A search for the number of samples that would decide ends here: beyond it the advice is idle.
MOST_SAMPLES = 10**8


def binomial_bounds(events: float, trials: float, confidence: float) -> tuple[float, float]:
    """One-sided exact bounds on a rate, each at `confidence` (Clopper and Pearson 1934).

    Zero events of n give an upper bound of 1 - (1 - confidence)**(1/n), about 3/n at 95 %.

    Args:
        events: number of events; a fraction where trials are an effective number (Korn and Graubard
            1998, "Confidence intervals for proportions with small expected number of positive
            counts estimated from survey data").
        trials: number of trials.
        confidence: of each bound.

    Returns:
        Lower and upper bound.
    """
    from scipy.special import betaincinv

    lower = float(betaincinv(events, trials - events + 1, 1 - confidence)) if events else 0.0
    if events >= trials:
        return lower, 1.0
    return lower, float(betaincinv(events + 1, trials - events, confidence))


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


def clustered_bounds(
    rate: float, share: float, trials: float, confidence: float
) -> tuple[float, float]:
    """One-sided bounds on a rate of changes that come in clusters, each at `confidence`.

    The samples enter as if those with changes had the same share of them. Changes that nobody saw
    have their place in a sample that is lost altogether. Where samples change altogether or not at
    all the bounds are `binomial_bounds`. `benchmarks/verdict_coverage.py` simulates the others.

    Args:
        rate: share of all decisions that changed.
        share: share of the decisions that changed in a sample with changes.
        trials: number of samples.
        confidence: of each bound.
    """
    if not rate:
        return binomial_bounds(0, trials, confidence)
    lower, seen = binomial_bounds(rate * trials / share, trials, confidence)
    unseen = binomial_bounds(0, trials, confidence)[1]
    altogether = binomial_bounds(rate * trials, trials, confidence)[1]
    return share * lower, min(altogether, share * seen + unseen)


def binomial_p(events: float, trials: float, limit: float) -> float:
    """The p-value of the hypothesis that a rate is at most `limit`; see `binomial_bounds`."""
    from scipy.special import betainc

    if not events:
        return 1.0
    return float(betainc(events, max(0.0, trials - events) + 1, min(1.0, limit)))


# An error is noise up to so many times the root mean square of the others without the worst tenth:
# one normal error in 500 is more than four times as large.
_TAIL, _OTHERS = 4.0, 0.9


def tail_of(errors: np.ndarray) -> np.ndarray:
    """The size up to which an error is noise beside others, along the first axis."""
    others = np.sort(errors, axis=0)[: math.ceil(_OTHERS * len(errors))]
    return np.asarray(_TAIL * np.sqrt(np.square(others).mean(axis=0)))


def less_mean(
    values: np.ndarray, known: np.ndarray | None, axis: int | tuple[int, ...]
) -> np.ndarray:
    """The values less their mean over an axis, 0 where they are not known; None if all are."""
    if known is None:
        return np.asarray(values - values.mean(axis=axis, keepdims=True))
    count = np.maximum(np.count_nonzero(known, axis=axis, keepdims=True), 1)
    mean = values.sum(axis=axis, keepdims=True, where=known) / count
    return np.where(known, values - mean, 0.0)
