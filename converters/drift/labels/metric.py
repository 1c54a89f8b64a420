"""A metric of both models on the same labels, and bounds on how much worse the candidate is."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# Of `Metric.lower` and `Metric.upper`; a verdict takes the budget's.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Metric:
    """One metric of the reference and the candidate against the same labels.

    "Worse" is the reference's value minus the candidate's, or the other way round for an error.

    Attributes:
        name: name of the metric, such as "accuracy" or "ROC AUC".
        reference: the metric of the reference.
        candidate: the metric of the candidate.
        lower: lower bound on how much worse the candidate truly is, one-sided at 95 %.
        upper: upper bound on it.
        primary: whether the verdict needs proof that this metric kept its limit. The others fail
            a candidate if they are over their limit beyond doubt.
        samples: number of distinct samples that the bounds rest on.
        lower_is_better: whether the metric is an error.
        own: whether the user declared it.
        lost: samples that only the reference has right; None unless each sample has one answer.
        gained: samples that only the candidate has right.
        standard_error: of the difference; None if it is unknown.
        degrees: degrees of freedom of the standard error; infinite for a normal distribution.
        deviation: standard deviation of the labels, for errors; None for others.
        resamples: number of resamples that the standard error is from; 0 for a formula.
        error: reason why the candidate has no value; None if it has one.
        reach: how much worse a sample that was not seen can be, in units of the metric; 0 for a
            metric that only fails a candidate.
    """

    name: str
    reference: float
    candidate: float
    lower: float
    upper: float
    primary: bool
    samples: int
    lower_is_better: bool = False
    own: bool = False
    lost: int | None = None
    gained: int | None = None
    standard_error: float | None = None
    degrees: float = math.inf
    deviation: float | None = None
    resamples: int = 0
    error: str | None = None
    reach: float = 1.0

    @property
    def worse(self) -> float:
        """How much worse the candidate was on these samples."""
        return worse(self.reference, self.candidate, self.lower_is_better)

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Bounds on how much worse the candidate truly is, each one-sided at `confidence`."""
        return difference_bounds(
            self.worse,
            self.standard_error,
            confidence,
            samples=self.samples,
            degrees=self.degrees,
            reach=self.reach,
        )

    def p_over(self, limit: float) -> float:
        """The p-value of the hypothesis that the candidate is worse by at most `limit`."""
        from scipy.special import ndtr, stdtr

        error, beyond = self.standard_error, self.worse - limit
        if error is None or not beyond > 0 or self.degrees < 1:
            return 1.0
        if not error:
            return 0.0
        below = -beyond / error
        return float(ndtr(below) if math.isinf(self.degrees) else stdtr(self.degrees, below))

    def seen_on(self, samples: int) -> "Metric":
        """The same metric, had it been seen on another number of samples."""
        scale = samples / self.samples
        error = None if self.standard_error is None else self.standard_error / math.sqrt(scale)
        return replace(self, samples=samples, standard_error=error, degrees=self.degrees * scale)


def worse(reference: float, candidate: float, lower_is_better: bool = False) -> float:
    """The difference that is positive where the candidate is worse."""
    return candidate - reference if lower_is_better else reference - candidate


def metric(
    name: str,
    reference: float,
    candidate: float,
    left_out: np.ndarray | None = None,
    **facts: Any,
) -> Metric:
    """A metric with its bounds at `CONFIDENCE`, and other fields by name.

    `left_out` is the difference without each sample or group of samples, see `jackknife`.
    """
    if left_out is not None:
        error, degrees = jackknife(left_out)
        facts |= {"standard_error": error, "degrees": degrees}
    plain = Metric(name, reference, candidate, math.nan, math.nan, **facts)
    lower, upper = plain.bounds(CONFIDENCE) if plain.samples else (-math.inf, math.inf)
    return replace(plain, lower=lower, upper=upper)


def without_each(part: np.ndarray, whole: np.ndarray | None = None) -> np.ndarray:
    """The ratio of the sums of all samples but one, for each of them; without `whole` the mean."""
    whole = np.ones(len(part)) if whole is None else whole
    return (part.sum() - part) / np.maximum(whole.sum() - whole, 1)


def jackknife(left_out: np.ndarray) -> tuple[float | None, float]:
    """Standard error of a difference, and its degrees of freedom.

    See Shao and Tu 1995, "The Jackknife and Bootstrap", section 2.3. For a mean it is the standard
    deviation over the root of the number of samples, and for the area under a ROC curve DeLong's.

    Args:
        left_out: the difference without each sample, or without each group of samples; NaN where
            it is undefined.

    Returns:
        The standard error; None where fewer than two differences, or most of them, are undefined.
    """
    found = left_out[np.isfinite(left_out)]
    count = len(found)
    if count < max(2, len(left_out) / 2):
        return None, 0.0
    spread = float(np.square(found - found.mean()).sum())
    return math.sqrt((count - 1) / count * spread), count - 1.0


def difference_bounds(
    difference: float,
    standard_error: float | None,
    confidence: float,
    *,
    samples: int,
    degrees: float = math.inf,
    reach: float = 1.0,
) -> tuple[float, float]:
    """One-sided bounds on a difference, each at `confidence`.

    The upper one is that of a score interval for a mean of numbers up to `reach`, such as the share
    of a sample's pixels that were lost: if the true mean lies d beyond the one that was seen, then
    samples that were not seen have shifted it, at the worst ones that are lost altogether. These
    add d times `reach` to the variance of one sample, so d solves
    n d**2 = z**2 (variance + reach d). For ones and zeros it is Wilson's interval (1927); if no
    sample changed it is z**2 / n, and not the 0 that a standard error of 0 would claim.
    The lower bound has no such term: rounding makes no sample right that was wrong altogether.

    Args:
        difference: the difference that was seen.
        standard_error: its standard error; None if it is unknown.
        confidence: confidence of each bound.
        samples: number of samples.
        degrees: degrees of freedom of the standard error.
        reach: the largest difference that a sample can have; 0 if samples that were not seen are
            taken to be like those that were.
    """
    from scipy.special import ndtri, stdtrit

    if standard_error is None or math.isnan(standard_error) or math.isnan(difference):
        return -math.inf, math.inf
    if degrees < 1:
        return -math.inf, math.inf
    z = float(ndtri(confidence) if math.isinf(degrees) else stdtrit(degrees, confidence))
    half = z * standard_error if standard_error else 0.0
    unseen = z * z * reach / samples / 2
    return difference - half, difference + unseen + math.hypot(unseen, half)
