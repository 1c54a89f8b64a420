"""The verdict that follows from evidence and a budget: PASS, FAIL or INCONCLUSIVE, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfmp.converters.drift import DriftBudget, LabelDrift, OutputDrift
from tfmp.converters.drift.verdict.answers import label_checks
from tfmp.converters.drift.verdict.check import Check, Verdict, corrected, doubt, fault, overall
from tfmp.converters.drift.verdict.closeness import closeness_checks
from tfmp.converters.drift.verdict.decisions import decision_checks, meaning_checks
from tfmp.converters.drift.verdict.lost import lost_checks, outputs_checks
from tfmp.converters.drift.verdict.soundness import soundness_checks
from tfmp.converters.drift.verdict.wraps import unless_angles
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
    unchanged: bool = False,
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
        unchanged: whether the candidate is the reference: there was nothing to convert.
        error: reason why the candidate could not be run or compared; the candidate then fails.

    Raises:
        InputError: the budget has limits for an output that does not exist.
    """
    budget = budget if budget is not None else DriftBudget()
    if error is not None:
        return Judgement(Verdict.FAIL, (error,), (fault("run", "", error),))
    check_overrides(budget, [output.name for output in outputs])
    if unchanged:
        text = "the file is the reference itself, byte by byte: there was nothing to convert"
        return Judgement(Verdict.PASS, (text,), ())
    checks: list[Check] = []
    for output in outputs:
        checks += soundness_checks(output, nonfinite_inputs)
    checks += [fault("overflow", "", text) for text in overflows]
    for output in outputs:
        limits = budget.for_output(output.name)
        close = [*closeness_checks(output, limits), *lost_checks(output, limits)]
        checks += unless_angles(output, limits, close)
    checks += outputs_checks(outputs, budget)
    for output in outputs:
        limits = budget.for_output(output.name)
        checks += [*decision_checks(output, limits), *meaning_checks(output, limits)]
    for label in labels:
        checks += label_checks(label, budget.for_output(label.output))
    if not checks:
        text = "no limit of the budget applies to these outputs, so nothing was judged. "
        checks.append(doubt("limits", "", f"{text}Declare a limit"))
    checks = corrected(checks, budget.confidence)
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


def _evidence(outputs: Sequence[OutputDrift], budget: DriftBudget, synthetic: bool) -> list[Check]:
    """Checks that there is enough real data to certify anything."""
    samples = min((output.samples for output in outputs), default=0)
    repeated = max((output.totals.rows.repeated for output in outputs), default=1.0)
    distinct = round(samples / repeated)
    checks = []
    if distinct < budget.min_samples:
        compared = f"{samples:,} {'sample was' if samples == 1 else 'samples were'} compared"
        if distinct < samples:
            compared += f", of which {distinct:,} {'is' if distinct == 1 else 'are'} distinct"
        nan = max((output.totals.both_nan for output in outputs), default=0)
        if nan:
            compared += f" ({nan:,} values are NaN on both sides; samples of NaN do not count)"
        text = (
            f"{compared}; fewer than {budget.min_samples:,} (min_samples) certify nothing. Give "
            f"at least {budget.min_samples:,} distinct samples"
        )
        limit = float(budget.min_samples)
        checks.append(replace(doubt("min_samples", "", text, float(distinct)), limit=limit))
    if synthetic:
        text = (
            "the inputs were synthetic: they can show that a model is broken, but not that it is "
            "sound. Pass real samples of these sizes with --data"
        )
        checks.append(doubt("synthetic", "", text))
    return checks


def _no_arithmetic() -> Check:
    text = (
        "the file was run in FP32 arithmetic with its FP16 weights, so the effect of FP16 "
        "arithmetic is unknown. Run it with --device cpu or, where a CPU cannot compute it in "
        "FP16, on a machine with a GPU with --device gpu"
    )
    return doubt("arithmetic", "", text)
