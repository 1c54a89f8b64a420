"""Checks of distances: of an output as a whole, of each sample, and of each channel or column."""

from dataclasses import replace

import numpy as np

from tfmp.converters.drift import (
    EQUALITY,
    OFF,
    THRESHOLD,
    THRESHOLD_ZERO,
    DriftBudget,
    Kind,
    OutputDrift,
    Slices,
    binomial_bounds,
    changes_bits,
    fewest_samples,
    sample_errors,
    without_off,
)
from tfmp.converters.drift.verdict.check import (
    Check,
    Verdict,
    advice,
    against,
    number_beside,
    p_over,
)
from tfmp.converters.drift.verdict.hidden import (
    ceiling_checks,
    contrast_checks,
    extent_checks,
    flat_sample_checks,
    group_checks,
    inner_axis_checks,
    merged_row_checks,
    rare_column_checks,
    share_checks,
    small_value_checks,
    wrong_value_checks,
)
from tfmp.converters.drift.verdict.slice_errors import (
    SliceErrors,
    deviation_of,
    slice_errors,
    values_of_each,
)
from tfmp.converters.drift.verdict.steps import step_check
from tfmp.converters.drift.verdict.variation import (
    CONSTANT,
    EVERYWHERE,
    NO_NUMBERS,
    VARIATION,
    variation_checks,
)

# Noise of logits that changes odds by 5 % is an error, however large other samples' logits are.
_LOUD = 0.05

# Errors of samples up to those of nearly all that are right are noise, too.
_MOST = 0.95

# So many samples say what noise is. Root mean squares of two such groups are alike up to this
# factor: that of 30 normal errors is known to 13 %. And of normal errors the few largest are about
# so many times as large as all others.
_ENOUGH, _ALIKE, _TAIL = 30, 1.5, 4.0

# Outputs of so many numbers are as many measures; of more, they are a signal or a vector.
_FEW = 16

# What tells samples apart, where an error is a larger share of it than of the size.
_HIDDEN = ". Beside its offset that is more than a tenth of what tells samples apart"

# Decisions of values that are two, such as 0 and 1.
_BITS = (THRESHOLD, THRESHOLD_ZERO)


def closeness_checks(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """The checks of one output's distances; none for values that are compared by equality."""
    if output.rel_l2 is None or output.decision == EQUALITY:
        return []
    if output.task.kind is Kind.DETECTION:
        return []  # places in a list of detections mean nothing; see `detections`
    if output.known is None and output.decision in _BITS and changes_bits(output.totals):
        return []  # each difference is a decision
    checks = [*_pooled(output, budget), *_samples(output, budget)]
    right = [each for each in checks if each.verdict is Verdict.PASS or each.name == "max_abs"]
    steps = step_check(output, budget)
    if len(right) < len(checks) and steps is not None:
        checks = [*right, steps]
    checks += _slices(output, budget)
    if steps is None:  # else each difference is a decision
        for each in (flat_sample_checks, merged_row_checks, wrong_value_checks):
            checks += each(output, budget)
    return checks


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
        elif not within and name == "rel_l2" and _without_bad(output, budget) <= limit:
            within = True
            text += (
                f", and {_without_bad(output, budget):.3g} without the few samples over "
                "sample_rel_l2, which are judged by themselves"
            )
        verdict = Verdict.PASS if within else Verdict.FAIL
        checks.append(Check(name, output.name, measured, None, None, limit, verdict, text))
    return checks


def _bad_samples(
    output: OutputDrift, budget: DriftBudget, limit: float | None = None
) -> np.ndarray:
    """Rows of samples over a limit that are proven to be few; none if they are not.

    Args:
        output: the output.
        budget: its limits.
        limit: of a sample's error; `sample_rel_l2` if it is None.
    """
    errors, _ = sample_errors(output.totals)
    few = np.zeros(len(errors), bool)
    if budget.sample_rel_l2 is None or budget.flip_rate is None or not len(errors):
        return few
    bad = errors > (budget.sample_rel_l2 if limit is None else limit)
    _, upper = binomial_bounds(int(np.count_nonzero(bad)), len(bad), budget.confidence)
    return bad if upper <= budget.flip_rate else few


def _without_bad(output: OutputDrift, budget: DriftBudget) -> float:
    """The relative L2 error without the few samples that are judged by themselves."""
    bad, rows = _bad_samples(output, budget), output.totals.rows
    if not bad.any() or output.nonfinite or output.infinite_lost:
        return np.inf
    error, norm = rows.values[~bad, :2].T
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
            f"{where}: the worst of {samples:,} samples is off by {number_beside(worst, limit)} of "
            f"its own size, budget {limit:.10g}; at most {upper:.2%} of all samples are off by "
            f"more ({budget.confidence:.0%} confidence)"
        )
        return [Check("sample_rel_l2", output.name, worst, None, None, limit, verdict, text)]
    verdict = against(lower, upper, share)
    lost = int(np.count_nonzero((errors > limit) & ~_is_noise(output, errors, limit)))
    if verdict is Verdict.FAIL:
        drowned = _is_noise(output, errors, limit) | _drowns(output, errors, limit)
        lost = int(np.count_nonzero((errors > limit) & ~drowned))
    everywhere = verdict is Verdict.FAIL and (
        binomial_bounds(lost, samples, budget.confidence)[0] <= share
    )
    if everywhere:
        verdict = Verdict.INCONCLUSIVE
    elif verdict is Verdict.INCONCLUSIVE and bad > lost:
        upper = binomial_bounds(lost, samples, budget.confidence)[1]
        verdict = against(0.0, upper, share)
    bound = f"least {lower:.2%}" if verdict is Verdict.FAIL else f"most {upper:.2%}"
    text = (
        f"{where}: {bad:,} of {samples:,} samples are off by more than {limit:.10g} of their own "
        f"size, the worst by {worst:.3g}; the true share is at {bound} "
        f"({budget.confidence:.0%} confidence), budget {share:.2%}"
    )
    if verdict is Verdict.PASS and bad > lost:
        text += f". {bad - lost:,} of them are noise beside larger samples"
    if everywhere:
        text += (
            ". Their errors are no larger than those of the other samples, so these may be noise "
            "beside them. Declare what the output means (--task), or limit max_abs"
        )
    elif verdict is Verdict.INCONCLUSIVE:

        def decides(count: int) -> bool:
            low, high = binomial_bounds(round(bad / samples * count), count, budget.confidence)
            return against(low, high, share) is not Verdict.INCONCLUSIVE

        text += advice(fewest_samples(decides, samples), "share")
    p = p_over(lambda confidence: binomial_bounds(lost, samples, confidence), share)
    return [
        Check("sample_share", output.name, bad / samples, lower, upper, share, verdict, text, p)
    ]


def _is_noise(output: OutputDrift, errors: np.ndarray, limit: float) -> np.ndarray:
    """Samples whose error is no larger than that of the samples that are right."""
    absolute = output.totals.rows.values[:, 0]
    right = absolute[errors <= limit]
    if len(right) < len(absolute) / 10:
        return np.zeros(len(absolute), bool)
    usual = float(np.median(right))
    if _is_loud(output, usual):
        return np.zeros(len(absolute), bool)
    return absolute <= max(EVERYWHERE * usual, float(np.quantile(right, _MOST)))


def _is_loud(output: OutputDrift, error: float) -> bool:
    each = output.totals.values / max(1, output.samples)
    return output.task.kind is Kind.CLASSIFICATION and error > _LOUD * each**0.5


def _drowns(output: OutputDrift, errors: np.ndarray, limit: float) -> np.ndarray:
    """Samples over the limit whose size drowns in the noise of larger samples.

    Of samples near zero those with the largest errors are over the limit, so these say nothing of
    the noise there: all samples of their size are compared with the larger ones. If others of
    their size are much nearer, these are no tail of one noise.
    """
    absolute, size = output.totals.rows.values[:, :2].T
    bad = errors > limit
    near = size <= np.quantile(size[bad], _MOST, method="lower")
    larger, right = absolute[~near & ~bad], absolute[near & ~bad]
    alike = len(larger) >= _ENOUGH and _rms(absolute[near]) <= _ALIKE * _rms(larger)
    if alike and len(right) >= _ENOUGH:
        alike = _rms(absolute[near & bad]) <= _TAIL * _rms(right)
    if not alike or _is_loud(output, float(np.median(larger))):
        return np.zeros_like(bad)
    return bad & (absolute <= EVERYWHERE * float(np.quantile(larger, _MOST)))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values * values).mean()))


def _worst_sample(output: OutputDrift, limit: float) -> list[Check]:
    """The check for evidence without rows of samples, such as reports of before they were kept."""
    worst = output.worst_rel_l2
    if worst is None:
        return []
    within = worst <= limit
    text = (
        f"output {output.name!r}: the worst of {output.samples:,} samples is off by "
        f"{number_beside(worst, limit)} of its own size, budget {limit:.10g}"
    )
    if not within:
        text += "; the share of such samples was not recorded. Validate again"
    verdict = Verdict.PASS if within else Verdict.INCONCLUSIVE
    return [Check("sample_rel_l2", output.name, worst, None, None, limit, verdict, text)]


def _slices(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    """Whether a channel or column is wrong that is small beside the others."""
    limit = budget.slice_rel_l2
    if limit is None:
        return []
    rare: list[Check] = []
    if _bad_samples(output, budget, OFF).any():  # they are judged by themselves
        rare = rare_column_checks(output, limit)
        totals = without_off(output.totals)
        output = replace(output, samples=totals.samples, totals=totals)
    if output.task.kind is Kind.EMBEDDING:
        return _variation(output, limit)
    if output.task.kind is Kind.CLASSIFICATION:
        return share_checks(output, limit)
    last, first = output.totals.slices, output.totals.planes
    checks = [_slice_check(output, last, "column", limit)] if last.count else []
    checks += [_slice_check(output, first, "place", limit)] if first.count else []
    checks += [
        *rare,
        *extent_checks(output, limit),
        *contrast_checks(output, limit),
        *(small_value_checks(output, budget) if step_check(output, budget) is None else ()),
        *ceiling_checks(output, budget),
        *inner_axis_checks(output, limit),
    ]
    return [*checks, *variation_checks(output, budget), *group_checks(output, budget)]


def _slice_check(output: OutputDrift, slices: Slices, word: str, limit: float) -> Check:
    found = slice_errors(output, slices)
    errors = found.errors
    over = (errors > limit) & ~found.tolerated
    broken = over & ~found.offset & ~found.noise
    chosen = broken if broken.any() else over if over.any() else ~found.tolerated
    chosen = chosen if chosen.any() else errors <= limit
    worst = int(np.where(chosen if chosen.any() else True, errors, -1.0).argmax())
    measured = float(errors[worst])
    where = "value" if slices.count == 1 else f"{word} {worst} of {slices.count:,}"
    if word == "place" and slices.count > 1:
        where += " on axis 1"
    text = (
        f"output {output.name!r}: {where} is off by {number_beside(measured, limit)} of its own "
        f"size or variation, budget {limit:.10g}"
    )
    verdict = Verdict.PASS
    if broken.any():
        verdict = Verdict.FAIL
        if np.count_nonzero(broken) > 1:
            text += f"; {np.count_nonzero(broken):,} such {word}s are over it"
        if found.rounding[worst]:
            text += NO_NUMBERS
    elif _is_little_beside_offset(output, slices, found):
        verdict = Verdict.INCONCLUSIVE
        text += NO_NUMBERS if found.rounding[worst] else _HIDDEN
        text += f". If this is enough, declare --task {output.name}=regression"
    elif over.any():
        verdict = Verdict.INCONCLUSIVE
        text += (
            NO_NUMBERS
            if found.offset[worst]
            else f". The error is no larger than that of the other {word}s, so this one may be "
            "noise beside them. Compare it by itself, as an output of its own, or set "
            f"{output.name}.slice_rel_l2 to more than that"
        )
    elif measured > limit:
        text += f", where each {word} is noise of rounding"
    return Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)


def _variation(output: OutputDrift, limit: float) -> list[Check]:
    """Whether vectors still differ from one another, beside an offset that all share."""
    slices = output.totals.slices
    if not slices.count:
        return []
    whole = float((deviation_of(output, slices) ** 2 * values_of_each(output, slices)).sum())
    if whole <= CONSTANT**2 * float(slices.reference_sq.sum()):
        return []
    measured = float(np.sqrt(slices.error_sq.sum() / whole)) / VARIATION
    verdict = Verdict.PASS if measured <= limit else Verdict.FAIL
    told = number_beside(measured * VARIATION, limit * VARIATION)
    text = (
        f"output {output.name!r}: vectors are off by {told} of what tells them apart, budget "
        f"{limit * VARIATION:.10g}"
    )
    return [Check("slice_rel_l2", output.name, measured, None, None, limit, verdict, text)]


def _is_little_beside_offset(output: OutputDrift, slices: Slices, found: SliceErrors) -> bool:
    """Whether a number of a few loses a tenth of its variation, and nobody says that it may."""
    few = output.totals.values == output.totals.samples * slices.count and slices.count <= _FEW
    lost = found.hidden & ~found.tolerated & (found.errors > 1 / 10 / VARIATION)
    return few and output.known is None and bool(lost.any())
