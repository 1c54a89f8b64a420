"""Checks of distances: of an output as a whole, of each sample, and of each channel or column."""

import numpy as np

from tfmp.converters.drift import (
    DECIDING,
    DriftBudget,
    Kind,
    OutputDrift,
    binomial_bounds,
    decision_shares,
    fewest_samples,
    sample_errors,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, advice, against, p_over

# A slice smaller than this share of the largest one is float32's own rounding noise: columns are
# computed each by itself, and channels of a feature map as sums over the same terms.
_COLUMN_NOISE, _CHANNEL_NOISE = 1e-8, 1e-6

# Probabilities below it change no answer.
_NEGLIGIBLE = 2.0**-20

# A channel of a feature map is a sum over terms of the size of the largest channel, which FP16
# rounds to about this share of it. That much is excused where the channel still says something.
_ROUNDING, _SPEAKING = 2.0**-10, 0.5


def closeness_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's distances; none for values that are compared by equality."""
    if output.rel_l2 is None or output.task.kind is Kind.DETECTION:
        return []  # places in a list of detections mean nothing; see `detections`
    return [
        *_pooled(output, budget),
        *(_samples(output, budget) if _is_read_by_size(output) else []),
        *_slices(output, budget),
    ]


def _is_read_by_size(output: OutputDrift) -> bool:
    """Whether single samples are read as numbers; decisions that values only suggest are, too."""
    return output.task.kind not in DECIDING or _is_guess(output)


def _is_guess(output: OutputDrift) -> bool:
    return output.known is None and output.task.kind in (Kind.BINARY, Kind.MULTILABEL)


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
            f"output {output.name!r}: {name} {_number(measured, limit)} is "
            f"{'within' if within else 'over'} the budget of {limit:.3g}"
        )
        broken = output.nonfinite or output.infinite_lost  # then nothing was summed
        if not within and not broken and output.totals.reference_sq == ():
            text += f" (the reference is all zeros here; limit max_abs instead of {name})"
        elif not within and name == "rel_l2" and _without_flips(output) <= limit:
            within = True
            text += (
                f", and without the samples that flip {_without_flips(output):.3g}; their number "
                "is judged by itself"
            )
        verdict = Verdict.PASS if within else Verdict.FAIL
        checks.append(Check(name, output.name, measured, None, None, limit, verdict, text))
    return checks


def _without_flips(output: OutputDrift) -> float:
    """The relative L2 error of the samples that are decided alike; infinite if few are."""
    shares, rows = decision_shares(output), output.totals.rows
    if shares is None or not output.nonfinite == output.infinite_lost == 0:
        return np.inf
    alike = shares == 0
    if np.count_nonzero(alike) < len(rows) / 2:
        return np.inf
    error, norm = rows.values[alike, :2].T
    return float(np.sqrt((error**2).sum() / (norm**2).sum())) if norm.any() else np.inf


def _samples(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether single samples are wrong that are small beside the others, or few."""
    limit, share = budget.sample_rel_l2, budget.flip_rate
    if limit is None or output.samples == 0:
        return []
    errors, _ = sample_errors(output.totals)
    if not len(errors):
        return _worst_sample(output, limit)
    bad, samples, worst = int(np.count_nonzero(errors > limit)), len(errors), float(errors.max())
    lower, upper = binomial_bounds(bad, samples, budget.confidence)
    where = f"output {output.name!r}"
    if bad == 0 or share is None:
        verdict = Verdict.PASS if bad == 0 else Verdict.FAIL
        text = (
            f"{where}: the worst of {samples:,} samples is off by {_number(worst, limit)} of its "
            f"own size, budget {limit:.3g}; at most {upper:.2%} of all samples are off by more "
            f"({budget.confidence:.0%} confidence)"
        )
        return [Check("sample_rel_l2", output.name, worst, None, None, limit, verdict, text)]
    verdict = against(lower, upper, share)
    bound = f"least {lower:.2%}" if verdict is Verdict.FAIL else f"most {upper:.2%}"
    text = (
        f"{where}: {bad:,} of {samples:,} samples are off by more than {limit:.3g} of their own "
        f"size, the worst by {worst:.3g}; the true share is at {bound} "
        f"({budget.confidence:.0%} confidence), budget {share:.2%}"
    )
    if verdict is Verdict.INCONCLUSIVE:

        def decides(count: int) -> bool:
            low, high = binomial_bounds(round(bad / samples * count), count, budget.confidence)
            return against(low, high, share) is not Verdict.INCONCLUSIVE

        text += advice(fewest_samples(decides, samples), "share")
    p = p_over(lambda confidence: binomial_bounds(bad, samples, confidence), share)
    return [
        Check("sample_share", output.name, bad / samples, lower, upper, share, verdict, text, p)
    ]


def _worst_sample(output: OutputDrift, limit: float) -> list[Check]:
    """The check for evidence without rows of samples, such as reports of before they were kept."""
    worst = output.worst_rel_l2
    if worst is None:
        return []
    within = worst <= limit
    text = (
        f"output {output.name!r}: the worst of {output.samples:,} samples is off by "
        f"{_number(worst, limit)} of its own size, budget {limit:.3g}"
    )
    if not within:
        text += "; the share of such samples was not recorded. Validate again"
    verdict = Verdict.PASS if within else Verdict.INCONCLUSIVE
    return [Check("sample_rel_l2", output.name, worst, None, None, limit, verdict, text)]


def _slices(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether a channel or column is wrong that is small beside the others."""
    limit, slices = budget.slice_rel_l2, output.totals.slices
    if limit is None or not slices.count or output.task.kind is Kind.BINARY:
        return []
    errors, tolerated = slice_errors(output)
    counted = np.where(tolerated, 0.0, errors)
    over = int(np.count_nonzero(counted > limit))
    worst = int((counted if over else errors).argmax())
    measured = float(errors[worst])
    what = "value" if slices.count == 1 else f"column {worst} of {slices.count:,}"
    text = (
        f"output {output.name!r}: {what} is off by {_number(measured, limit)} of its own size or "
        f"range, budget {limit:.3g}"
    )
    if over > 1:
        text += f"; {over:,} columns are over it"
    elif not over and measured > limit:
        text += "; that is rounding noise beside the other columns"
    verdict = Verdict.FAIL if over else Verdict.PASS
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


def slice_errors(output: OutputDrift) -> tuple[np.ndarray, np.ndarray]:
    """The error of each channel or column, relative to its own size or range.

    That is its root-mean-square error over its root mean square, or over the distance from its
    smallest to its largest value if that is less: an offset hides no variation.

    Returns:
        The errors, and which of them are not the candidate's fault: of a slice that is noise of
        float32 in the reference, or that FP16 can hold no better.
    """
    totals, slices = output.totals, output.totals.slices
    each = max(1.0, totals.values / slices.count)
    error, size = (np.sqrt(sums / each) for sums in (slices.error_sq, slices.reference_sq))
    low, high = slices.edges[0], slices.edges[1]
    span, largest = high - low, np.maximum(np.abs(low), np.abs(high))
    # A slice that hardly varies is a constant: its size is its scale.
    scale = np.where(span > 1e-5 * largest, np.minimum(size, span), size)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error == 0, 0.0, error / scale)
    largest_size = size.max(initial=0.0)
    channels = totals.values > totals.samples * slices.count
    tolerated = size < (_CHANNEL_NOISE if channels else _COLUMN_NOISE) * largest_size
    if totals.unit and output.task.kind is Kind.MULTILABEL and not _is_guess(output):
        tolerated |= size < _NEGLIGIBLE
    if channels:
        tolerated |= (error < _ROUNDING * largest_size) & (relative < _SPEAKING)
    return np.where(np.isnan(relative), np.inf, relative), tolerated


def _number(measured: float, limit: float) -> str:
    """With as many digits as tell it from the limit."""
    for digits in range(3, 8):
        text = f"{measured:.{digits}g}"
        if measured == limit or float(text) != limit:
            return text
    return repr(measured)
