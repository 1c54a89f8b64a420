"""Checks of distances: of an output as a whole, and of each sample."""

import numpy as np

from tfmp.converters.drift import (
    EQUALITY,
    DriftBudget,
    Kind,
    OutputDrift,
    binomial_bounds,
    binomial_p,
    fewest_samples,
    sample_errors,
    set_aside,
    tail_of,
)
from tfmp.converters.drift.verdict.check import (
    Check,
    Verdict,
    advice,
    against,
    bound_text,
    number_beside,
)


def closeness_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's distances; none for values that are compared by equality."""
    if output.rel_l2 is None or output.decision == EQUALITY:
        return []
    if output.task.kind is Kind.DETECTION:
        return []  # places in a list of detections mean nothing; see `detections`
    return [*_pooled(output, budget), *_samples(output, budget)]


def _pooled(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Distances over all values of these samples.

    A mean of squares has no bound that needs no assumption: a sample that was not seen may be as
    large as it likes. `_samples` bounds how many such samples there are.
    """
    checks = []
    for name, limit in (("rel_l2", budget.rel_l2), ("max_abs", budget.max_abs)):
        measured: float | None = getattr(output, name)
        if limit is None or measured is None:
            continue
        # Written in this way so that NaN, for which every comparison is False, does not pass.
        within = measured <= limit
        text = (
            f"output {output.name!r}: {name} {number_beside(measured, limit)} is "
            f"{'within' if within else 'over'} the budget of {limit:.10g}"
        )
        broken = output.nonfinite or output.infinite_lost  # then nothing was summed
        if not within and not broken and output.totals.reference_sq == ():
            text += f" (the reference is all zeros here; limit max_abs instead of {name})"
        elif not within and name == "rel_l2" and (rest := _without_few(output)) <= limit:
            within = True
            text += (
                f", and {rest:.3g} without the few samples over sample_rel_l2, which are judged "
                "by themselves"
            )
        verdict = Verdict.PASS if within else Verdict.FAIL
        checks.append(Check(name, output.name, measured, None, None, limit, verdict, text))
    return checks


def _without_few(output: OutputDrift) -> float:
    """The relative L2 error without the few samples that are judged by themselves."""
    few = set_aside(output.totals)
    if not few.any() or few.all() or output.nonfinite or output.infinite_lost:
        return np.inf
    error, norm = output.totals.rows.values[~few, :2].T
    return float(np.sqrt((error**2).sum() / (norm**2).sum())) if norm.any() else np.inf


def _samples(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether single samples are wrong that are small beside the others, or few."""
    limit, share = budget.sample_rel_l2, budget.flip_rate
    if limit is None or output.samples == 0:
        return []
    errors = sample_errors(output.totals)
    if not len(errors):
        return []
    bad, samples, worst = int(np.count_nonzero(errors > limit)), len(errors), float(errors.max())
    lower, upper = binomial_bounds(bad, samples, budget.confidence)
    where = f"output {output.name!r}"
    if bad == 0 or share is None:
        verdict = Verdict.PASS if bad == 0 else Verdict.FAIL
        text = (
            f"{where}: the worst of {samples:,} samples is off by {number_beside(worst, limit)} of "
            f"its own size, budget {limit:.10g}; at most {upper:.2%} of all samples are off by "
            f"more ({budget.confidence:.0%} confidence)"
        )
        return [Check("sample_rel_l2", output.name, worst, None, None, limit, verdict, text)]
    lost = int(np.count_nonzero((errors > limit) & ~_is_noise(output, errors, limit)))
    without_noise = binomial_bounds(lost, samples, budget.confidence)
    verdict = against(*without_noise, share)
    everywhere = lower > share and verdict is not Verdict.FAIL
    if everywhere:
        verdict = Verdict.INCONCLUSIVE
    elif verdict is not Verdict.FAIL:
        upper = without_noise[1]
    text = (
        f"{where}: {bad:,} of {samples:,} samples are off by more than {limit:.10g} of their own "
        f"size, the worst by {worst:.3g}; the true share is at "
        f"{bound_text(verdict, lower, upper, budget)}, budget {share:.2%}"
    )
    if verdict is Verdict.PASS and bad > lost:
        text += f". {bad - lost:,} of them are noise beside larger samples"
    if everywhere:
        text += (
            ". Their errors are no larger than those of the other samples. This matters if small "
            f"samples are read by themselves; if not, add --budget {output.name}.sample_rel_l2=none"
        )
    elif verdict is Verdict.INCONCLUSIVE:

        def decides(count: int) -> bool:
            low, high = binomial_bounds(round(bad / samples * count), count, budget.confidence)
            return against(low, high, share) is not Verdict.INCONCLUSIVE

        text += advice(fewest_samples(decides, samples), "share")
    p = binomial_p(lost, samples, share)
    return [
        Check("sample_share", output.name, bad / samples, lower, upper, share, verdict, text, p)
    ]


def _is_noise(output: OutputDrift, errors: np.ndarray, limit: float) -> np.ndarray:
    """Samples whose error is no larger than that of the samples that are right; none of logits.

    A softmax reads what logits differ by, however large other samples' logits are.
    """
    absolute = output.totals.rows.values[:, 0]
    inexact = absolute > 0  # zeros that stay zeros have no noise
    right = absolute[inexact & (errors <= limit)]
    if len(right) < np.count_nonzero(inexact) / 10 or output.task.kind is Kind.CLASSIFICATION:
        return np.zeros(len(absolute), bool)
    return np.asarray(absolute <= tail_of(right))
