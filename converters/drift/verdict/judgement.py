"""The verdict that follows from evidence and a budget: PASS, FAIL or INCONCLUSIVE, and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfmp.converters.drift import (
    EQUALITY,
    REGRESSION,
    DriftBudget,
    LabelDrift,
    OutputDrift,
    binomial_bounds,
    fewest_samples,
    mean_bounds,
    paired_difference,
    total,
)
from tfmp.converters.drift.verdict.check import Check, Verdict, advice, against, bound_text, overall
from tfmp.converters.shared.errors import InputError

# `RunnerInfo.fp16` of FP16 weights in FP32 arithmetic.
WEIGHTS_ONLY = "weights-only"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one candidate.

    Attributes:
        verdict: FAIL if any check failed, else INCONCLUSIVE if any check is, else PASS.
        reasons: texts of the checks that decided it (for PASS: of all that have a limit).
        checks: every check, the gravest kind first.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]


def judge(
    outputs: Sequence[OutputDrift],
    labels: Sequence[LabelDrift] = (),
    budget: DriftBudget | None = None,
    *,
    synthetic: bool = False,
    nonfinite_inputs: int = 0,
    fp16: str | None = None,
    overflows: Sequence[str] = (),
    error: str | None = None,
) -> Judgement:
    """Judges one candidate.

    Args:
        outputs: the candidate's drift, one entry for each output.
        labels: its answers against labels, if there were any.
        budget: the limits; the defaults if None.
        synthetic: whether the inputs were made up, so that nothing is certified about real ones.
        nonfinite_inputs: number of input values that are NaN or infinite themselves.
        fp16: the runner's kind of FP16 (`RunnerInfo.fp16`); FP16 weights in FP32 arithmetic
            certify nothing about FP16.
        overflows: layers with values past FP16, in words. A runner may compute them in FP32, or
            an infinity may have no effect there; GPUs promise neither.
        error: reason why the candidate could not be run or compared; the candidate then fails.

    Raises:
        InputError: the budget has limits for an output that does not exist.
    """
    budget = budget if budget is not None else DriftBudget()
    if error is not None:
        failure = Check("run", "", None, None, None, None, Verdict.FAIL, error)
        return Judgement(Verdict.FAIL, (error,), (failure,))
    check_overrides(budget, [output.name for output in outputs])
    checks: list[Check] = []
    for output in outputs:
        checks += _soundness(output, nonfinite_inputs)
    checks += [
        Check("overflow", "", None, None, None, None, Verdict.FAIL, text) for text in overflows
    ]
    for output in outputs:
        checks += _distances(output, budget.for_output(output.name))
    for output in outputs:
        checks += _flips(output, budget.for_output(output.name))
    for label in labels:
        checks += _labels(label, budget.for_output(label.output))
    if not checks:
        checks.append(_no_limit())
    checks += _evidence(outputs, budget, synthetic)
    if fp16 == WEIGHTS_ONLY:
        checks.append(_no_arithmetic())
    verdict = overall([check.verdict for check in checks])
    reasons = tuple(check.text for check in checks if check.verdict is verdict)
    return Judgement(verdict, reasons, tuple(checks))


def check_overrides(budget: DriftBudget, names: Sequence[str]) -> None:
    """Raises `InputError` if the budget has limits for an output that is not one of `names`."""
    for name in budget.overrides:
        if name not in names:
            raise InputError(
                f"the budget has limits for output {name!r}, which the reference does not have; "
                f"its outputs: {', '.join(names) or 'none'}. Name one of these."
            )


def _soundness(output: OutputDrift, nonfinite_inputs: int) -> list[Check]:
    """Faults that no budget allows; they are looked at before any average."""
    name, values = output.name, output.totals.values
    given = f"; the data itself holds {nonfinite_inputs:,} such values" if nonfinite_inputs else ""
    where = f"output {name!r}"
    findings = {
        "nonfinite": (
            output.nonfinite,
            f"{where}: {output.nonfinite:,} of {values:,} values are NaN or infinite where the "
            f"reference has a number{given}",
        ),
        "infinite_lost": (
            output.infinite_lost,
            f"{where}: {output.infinite_lost:,} of {values:,} values are infinite in the "
            "reference and not, or with the other sign, in the candidate",
        ),
        "saturated": (
            output.saturated,
            f"{where}: {output.saturated:,} of {values:,} values are clamped at 65504, the "
            "largest FP16 value, where the reference lies beyond it",
        ),
        "collapsed": (
            int(output.collapsed),
            f"{where}: the candidate gives the same answer to every sample, the reference does not",
        ),
    }
    checks = [
        Check(kind, name, float(count), None, None, None, Verdict.FAIL, text)
        for kind, (count, text) in findings.items()
        if count
    ]
    if output.reference_nan:
        text = (
            f"{where}: the reference itself gives NaN for {output.reference_nan:,} of {values:,} "
            "values, which nothing can be compared with; fix the model or its input first"
        )
        count = float(output.reference_nan)
        inconclusive = Verdict.INCONCLUSIVE
        checks.append(Check("reference_nan", name, count, None, None, None, inconclusive, text))
    return checks


def _distances(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    checks = []
    for name, limit in (("rel_l2", budget.rel_l2), ("max_abs", budget.max_abs)):
        measured: float | None = getattr(output, name)
        if limit is None or measured is None:
            continue
        # Written in this way so that NaN, for which every comparison is False, does not pass.
        within = measured <= limit
        text = (
            f"output {output.name!r}: {name} {measured:.3g} is "
            f"{'within' if within else 'over'} the budget of {limit:.3g}"
        )
        broken = output.nonfinite or output.infinite_lost  # then nothing was summed
        if not within and not broken and output.totals.reference_sq == ():
            text += f" (the reference is all zeros here; limit max_abs instead of {name})"
        verdict = Verdict.PASS if within else Verdict.FAIL
        checks.append(Check(name, output.name, measured, None, None, limit, verdict, text))
    return checks


def _flips(output: OutputDrift, budget: DriftBudget) -> list[Check]:
    limit = budget.flip_rate
    if output.flips is None or limit is None or output.samples == 0:
        return []
    flips, samples = output.flips, output.samples
    lower, upper = binomial_bounds(flips, samples, budget.confidence)
    verdict = against(lower, upper, limit)
    what = "differ" if output.decision == EQUALITY else "flip"
    text = (
        f"output {output.name!r}: {flips:,} of {samples:,} samples {what}; the true rate is at "
        f"{bound_text(verdict, lower, upper, budget)}, budget {limit:.2%}"
    )
    if verdict is Verdict.INCONCLUSIVE:
        rate = flips / samples

        def decides(count: int) -> bool:
            low, high = binomial_bounds(round(rate * count), count, budget.confidence)
            return against(low, high, limit) is not Verdict.INCONCLUSIVE

        text += advice(fewest_samples(decides, samples), "rate")
    rate_check = Check(
        "flip_rate", output.name, flips / samples, lower, upper, limit, verdict, text
    )
    return [rate_check]


def _labels(label: LabelDrift, budget: DriftBudget) -> list[Check]:
    if label.samples == 0:
        return []
    if label.kind == REGRESSION:
        return _error_increase(label, budget)
    return _accuracy_drop(label, budget)


def _accuracy_drop(label: LabelDrift, budget: DriftBudget) -> list[Check]:
    limit = budget.accuracy_drop
    if limit is None or label.lost is None or label.gained is None or label.mcnemar_p is None:
        return []
    lost, gained, samples = label.lost, label.gained, label.samples
    lower, upper = paired_difference(lost, gained, samples, budget.confidence)
    verdict = against(lower, upper, limit)
    text = (
        f"output {label.output!r}: accuracy {label.reference:.2%} -> {label.candidate:.2%} "
        f"({lost:,} lost, {gained:,} gained, McNemar p = {label.mcnemar_p:.2g}); the true drop is "
        f"at {bound_text(verdict, lower, upper, budget)}, budget {limit:.2%}"
    )
    if verdict is Verdict.INCONCLUSIVE:

        def decides(count: int) -> bool:
            scale = count / samples
            bounds = paired_difference(
                round(lost * scale), round(gained * scale), count, budget.confidence
            )
            return against(*bounds, limit) is not Verdict.INCONCLUSIVE

        text += advice(fewest_samples(decides, samples), "drop")
    drop = (lost - gained) / samples
    return [Check("accuracy_drop", label.output, drop, lower, upper, limit, verdict, text)]


def _error_increase(label: LabelDrift, budget: DriftBudget) -> list[Check]:
    limit = budget.error_increase
    if limit is None:
        return []
    change = label.candidate - label.reference
    bounds = mean_bounds(change, total(label.totals.change_sq), label.samples, budget.confidence)
    scale = label.reference or math.nan
    lower, upper = bounds[0] / scale, bounds[1] / scale
    if label.reference == 0 and change == 0:
        lower = upper = 0.0
    verdict = against(lower, upper, limit)
    text = (
        f"output {label.output!r}: mean absolute error {label.reference:.4g} -> "
        f"{label.candidate:.4g}; the true increase is at "
        f"{bound_text(verdict, lower, upper, budget)}, budget {limit:.2%}"
    )
    measured = change / scale if change else 0.0
    return [Check("error_increase", label.output, measured, lower, upper, limit, verdict, text)]


def _no_limit() -> Check:
    text = "no limit of the budget applies to these outputs, so nothing was judged. Declare a limit"
    return Check("limits", "", None, None, None, None, Verdict.INCONCLUSIVE, text)


def _evidence(outputs: Sequence[OutputDrift], budget: DriftBudget, synthetic: bool) -> list[Check]:
    """Checks that there is enough real data to certify anything."""
    samples = min((output.samples for output in outputs), default=0)
    checks = []
    if samples < budget.min_samples:
        text = (
            f"{samples:,} samples were compared; fewer than {budget.min_samples:,} (min_samples) "
            "certify nothing. Pass more data"
        )
        limit = float(budget.min_samples)
        inconclusive = Verdict.INCONCLUSIVE
        checks.append(
            Check("min_samples", "", float(samples), None, None, limit, inconclusive, text)
        )
    if synthetic:
        text = (
            "the inputs were synthetic: they can show that a model is broken, but not that it is "
            "sound. Pass real data with --data"
        )
        verdict = Verdict.INCONCLUSIVE
        checks.append(Check("synthetic", "", None, None, None, None, verdict, text))
    return checks


def _no_arithmetic() -> Check:
    text = (
        "the file was run in FP32 arithmetic with its FP16 weights, so the effect of FP16 "
        "arithmetic is unknown. Run it where FP16 is computed or emulated (--device cpu does)"
    )
    return Check("arithmetic", "", None, None, None, None, Verdict.INCONCLUSIVE, text)
