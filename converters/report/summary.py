"""Numbers, names and findings for people, as every rendering has them."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import fields

from tfmp.converters.drift import (
    DECLARED,
    DriftBudget,
    Kind,
    Metric,
    OutputDrift,
)
from tfmp.converters.drift.verdict import Check, Verdict
from tfmp.converters.onnx.emulation import runtimes
from tfmp.converters.report.explanation import Explanation
from tfmp.converters.report.model import CandidateReport, DataReport, DriftReport, Latency
from tfmp.converters.runners import HOLDS_FOR, RunnerInfo
from tfmp.shared.html_page import NONE
from tfmp.shared.reporting import Command
from tfmp.shared.wording import alike_once, counted

_FP16 = {
    "native": "FP16",
    "emulated": "FP16 emulated",
    "weights-only": "FP16 weights only",
    None: "FP32",
}

_NAMES = {
    "run": "Did not run",
    "nonfinite": "Non-finite values",
    "infinite_lost": "Infinities lost",
    "reference_nan": "NaN in the reference",
    "rel_l2": "Relative L2 error",
    "max_abs": "Largest error",
    "sample_rel_l2": "Error of the worst sample",
    "between_samples": "Error in standard deviations",
    "between_columns": "Error of column differences",
    "between_places": "Error of steps between positions",
    "between_outputs": "Error of output differences",
    "sample_share": "Samples over the limit",
    "wrong_samples": "Samples with a wrong value",
    "near_end": "Samples with a wrong distance from the end",
    "class_flip_rate": "Most changed class",
    "row_rate": "Rows on one side only",
    "meaning": "Change under another meaning",
    "min_samples": "Distinct samples",
    "synthetic": "Synthetic inputs",
    "arithmetic": "FP16 arithmetic not run",
}

_HALF_REFERENCE = (
    "the reference has FP16 numbers itself, so the drift from its FP32 original is unknown: name "
    "that original as the reference"
)

# Checks of numbers, whatever they mean.
_DISTANCES = ("rel_l2", "max_abs")

# Words of metrics that are not written in small letters.
_SPELLED = {"iou": "IoU", "f1": "F1", "roc": "ROC", "auc": "AUC"}

# The names of the steps from the reference to a candidate.
STAGES = {
    "export": "FP32 file",
    "weights": "FP16 weights",
    "arithmetic": "FP16 arithmetic",
}


def worst_rel_l2(outputs: Sequence[OutputDrift]) -> float | None:
    """The relative L2 error of the worst output: NaN if any is; None if none has one."""
    values = [output.rel_l2 for output in outputs if output.rel_l2 is not None]
    return max(values, key=lambda value: (math.isnan(value), value), default=None)


def culprit_facts(explanation: Explanation | None) -> list[tuple[str, str]]:
    """The place to look at first, and the command that shows it; empty unless one was found."""
    if explanation is None or (culprit := explanation.culprit) is None:
        return []
    facts = [("where", f"layer {culprit.layer!r}: {culprit.why}")]
    layer = next((one for one in explanation.layers if one.layer == culprit.layer), None)
    if layer and 0 < layer.jump < math.inf and not (layer.nonfinite or layer.local_nonfinite):
        grown = f"from {number(layer.cumulative - layer.jump)} to {number(layer.cumulative)}"
        facts = [("where", f"layer {culprit.layer!r} adds most drift: the error grows {grown}")]
    if culprit.folder is not None:
        facts.append(("see", Command(shlex.join(["python", f"{culprit.folder}/reproduce.py"]))))
    return facts


def asked_for(report: DriftReport, candidate: CandidateReport) -> list[tuple[str, str]]:
    """Steps and layers, as far as a run was asked to measure them, each with its name."""
    found, floor, explained = [], report.reference.noise_floor, candidate.explanation
    if candidate.stages:
        steps = [f"noise floor of FP32 {number(worst_rel_l2(floor))}"] if floor else []
        for stage in candidate.stages:
            drift = number(worst_rel_l2(stage.outputs))
            told = drift if stage.error is None else f"not measured ({stage.error})"
            steps.append(f"{STAGES.get(stage.name, stage.name)} {told}")
        whole = number(worst_rel_l2(candidate.outputs))
        found.append(("rel. L2", f"{', '.join(steps)}, all together {whole}"))
    if explained is not None and explained.error is not None:
        found.append(("where", f"layers not measured: {explained.error}"))
    return found


def scope(report: DriftReport, candidate: CandidateReport) -> list[tuple[str, str]]:
    """The runtime and the open sizes that a verdict holds for, each with its name."""
    found = []
    if runtime := candidate.runner.details.get(HOLDS_FOR, ""):
        judged = {item.runner.details.get(HOLDS_FOR, "") for item in report.candidates}
        text = runtime
        if candidate.format == "onnx":
            others = [name for name, title in runtimes().items() if title not in judged]
            text += f"; not judged: {', '.join(others)} (--target)" if others else ""
        found.append(("holds for", text))
    if candidate.synthetic_sizes:
        made = f"{candidate.synthetic_sizes} (synthetic: the data's values repeated or cut)"
        return [*found, ("sizes", made)]
    seen = [
        f"{axis}: {low:,} to {high:,}" if low != high else f"{axis}: {low:,} only"
        for axis, (low, high) in sorted(report.data.sizes.items())
    ]
    return [*found, ("sizes", f"{', '.join(seen)}; --sizes judges others")] if seen else found


def meaning_text(output: OutputDrift) -> str:
    """What an output means and how that is known, in a sentence."""
    task = output.task
    how = "as declared" if task.why == DECLARED else f"because {task.why}"
    if task.kind is Kind.OTHER:
        return f"output {output.name!r} is judged by distances, {how}"
    where = []
    if task.axis != -1:
        where.append(f"along axis {task.axis}")
    if task.columns:
        boxes = "with boxes " if task.kind is Kind.DETECTION else ""
        where.append(f"{boxes}in the columns {', '.join(map(str, task.columns))}")
    text = " ".join([f"output {output.name!r} is read as {task.kind}", *where])
    return f"{text}, {how}"


def headline(report: DriftReport) -> str:
    """The report in one sentence."""
    judged = [each for each in report.candidates if not each.synthetic_sizes]
    count, made = len(judged), len(report.candidates) - len(judged)
    passed = sum(candidate.verdict is Verdict.PASS for candidate in judged)
    kind = "synthetic samples" if report.data.synthetic else "samples"
    failed = sum(each.verdict is Verdict.FAIL for each in report.candidates if each.synthetic_sizes)
    sizes = f"; {failed} of {made} failed on samples of made sizes" if made else ""
    return (
        f"{passed} of {counted(count, 'candidate')} passed against "
        f"{report.reference.name}, on {report.data.samples:,} {kind}{sizes}."
    )


def limits(budget: DriftBudget) -> dict[str, str]:
    """Every limit by its name, those of single outputs last."""
    named = {item.name: getattr(budget, item.name) for item in fields(DriftBudget)}
    for output, own in named.pop("overrides").items():
        named |= {f"{name} of {output}": value for name, value in own.items()}
    return {name: "none" if value is None else f"{value:g}" for name, value in named.items()}


def small_print(report: DriftReport) -> str:
    """The samples, and the limits that are not those by default."""
    data, usual = report.data, limits(DriftBudget())
    other = [f"{k} {v}" for k, v in limits(report.budget).items() if usual.get(k) != v]
    return (
        f"Data: {data.source}, {data.samples:,} samples, sha256 {data.sha256[:12]}. Budget: the "
        f"default{', except ' if other else ''}{', '.join(other)}."
    )


def data_notes(report: DriftReport) -> list[str]:
    """Notes on the reference and the samples."""
    reference = [_HALF_REFERENCE] if (of := report.reference.runner) and of.fp16 else []
    notes = (*reference, *nonfinite_notes(report.data), *report.data.notes)
    return alike_once(notes)


def nonfinite_notes(data: DataReport) -> list[str]:
    """Notes on inputs that hold NaN or infinite values themselves."""
    return [
        f"input {name!r} holds {count:,} values that are NaN or infinite"
        for name, count in data.nonfinite.items()
    ]


def runtime_text(runner: RunnerInfo) -> str:
    """The runtime that a verdict is about, and its FP16: "ort-cuda, FP16 emulated"."""
    if runner.name == "none":
        return NONE
    holds_for = runner.details.get(HOLDS_FOR, "")
    named = {title: name for name, title in runtimes().items()}
    where = named.get(holds_for, f"{runner.name} on {runner.device}")
    return f"{where}, {_FP16.get(runner.fp16, runner.fp16 or '')}"


def number(value: float | None, decimals: int | None = None) -> str:
    """A number with three significant digits, or a fixed number of decimals; "-" for None."""
    if value is None:
        return NONE
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if decimals is not None:
        return f"{value:z.{decimals}f}"
    return f"{value:.3g}"


def percent(value: float | None) -> str:
    """A share with two decimals and a percent sign."""
    return f"{value:z.2%}" if value is not None and math.isfinite(value) else number(value)


def size_text(size_bytes: int | None) -> str:
    """Bytes in a suitable decimal unit, as file listings have it."""
    if size_bytes is None:
        return NONE
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def number_of_ms(latency: Latency | None) -> str:
    """The median latency in milliseconds."""
    return f"{number(latency.median_ms)} ms" if latency is not None else NONE


def value_text(metric: Metric, value: float) -> str:
    """A value of a metric, or a difference between two; no bound where -inf is one."""
    shown = number if metric.lower_is_better or metric.own else percent
    return NONE if value == -math.inf else shown(value)


def name_of(check: Check) -> str:
    """A check's name for people: "mean_iou_drop" is "Mean IoU drop"."""
    if check.name in _NAMES:
        return _NAMES[check.name]
    first, *words = (_SPELLED.get(word, word) for word in check.name.split("_"))
    return " ".join([first[:1].upper() + first[1:], *words])


def upper_bound(check: Check) -> float | None:
    """The upper bound, unless a check passes because nothing proves that it is over its limit."""
    if check.upper is None or check.limit is None:
        return None
    return None if check.verdict is Verdict.PASS and check.upper > check.limit else check.upper


def share_of_limit(check: Check) -> float:
    """Share of the limit used; with a bound, of the bound, for it decides."""
    if check.limit is None or check.measured is None:
        return float("inf")
    bound = upper_bound(check)
    value = check.measured if bound is None else max(check.measured, bound)
    if value <= 0:
        return 0.0
    return value / check.limit if value == value and check.limit > 0 else float("inf")


def limited(candidate: CandidateReport) -> list[Check]:
    """The checks with a limit for a number, the one that uses most of it first."""
    found = [
        check
        for check in candidate.checks
        if check.limit is not None and check.measured is not None and check.name != "min_samples"
    ]
    return sorted(found, key=share_of_limit, reverse=True)


def cause(candidate: CandidateReport) -> Check | None:
    """The check that decides a verdict; None where nothing was checked.

    Checks stand in the order of what follows from what: values that are not finite before the
    answers that they flip. A doubt about the whole run, such as synthetic inputs, comes before
    doubts that more samples settle. A PASS is decided by the check that is nearest to its limit.
    """
    if candidate.verdict is Verdict.PASS:
        return next(iter(limited(candidate)), None)
    found = [check for check in candidate.checks if check.verdict is candidate.verdict]
    if candidate.verdict is Verdict.INCONCLUSIVE:
        found.sort(key=lambda check: bool(check.output) or check.measured is not None)
    return next(iter(found), None)


def decided_by(candidate: CandidateReport) -> str:
    """The check that decides, with its number and its limit."""
    check = cause(candidate)
    if check is None:
        return ""
    return f"{name_of(check)} {value_of(check)}".rstrip()


def value_of(check: Check) -> str:
    """The number of a check and its limit: the bound that decides, where there is one."""
    if check.measured is None or check.name in ("run", "collapsed"):
        return ""
    if check.limit is None:
        return f"{check.measured:,.0f}" if check.measured >= 1 else number(check.measured)
    if check.upper is None:
        return f"{number(check.measured)} (limit {number(check.limit)})"
    limit = f"(limit {number(100 * check.limit)}%)"
    if upper_bound(check) is None:
        return f"{percent(check.measured)}, not proven to be over {limit}"
    side, bound = ("≥", check.lower) if check.verdict is Verdict.FAIL else ("≤", check.upper)
    return f"{side} {percent(bound)} {limit}"


def findings(report: DriftReport, candidate: CandidateReport) -> list[tuple[str, str]]:
    """What is wrong, where, what to do and what would change it: a line each, with its name.

    A candidate that passes has at most its place. Checks that fail because of the first one are not
    named.
    """
    check, place = cause(candidate), culprit_facts(candidate.explanation)
    if candidate.verdict is Verdict.PASS or check is None:
        return place
    fact, advice = check.text.removeprefix(f"output {check.output!r}: "), ""
    if candidate.error is None:
        fact, _, advice = fact.partition(". ")
    if check.name == "arithmetic" and (reason := candidate.runner.details.get("fallback")):
        fact = f"{reason}, so the effect of FP16 arithmetic is unknown"
    if len(candidate.outputs) > 1 and check.output:
        fact = f"{check.output}: {fact}"
    step, other, meaning = advice, "", ""
    if candidate.verdict is Verdict.FAIL:
        step, meaning = _step(report, candidate) or advice, _meaning(candidate, check)
        place = place or [("where", _overflow(report, candidate, step).replace(fact, ""))]
    elif candidate.remedy and candidate.runner.fp16 and check.output and check.limit:
        # More samples settle a rate of 0.
        step, other = (_step(report, candidate), advice) if check.measured else (step, "")
    lines = [("what", fact), *place[:1], ("do", step), ("or", other), ("meaning", meaning)]
    lines += place[1:]
    return [
        (name, text if isinstance(text, Command) else text.rstrip("."))
        for name, text in lines
        if text
    ]


def _overflow(report: DriftReport, candidate: CandidateReport, step: str) -> str:
    """The first layer that is known to overflow; without a command to mend it, what finds one."""
    if candidate.error is not None:
        return ""
    # The same model overflows in the same layer, whatever the format.
    overflows = [found for one in (candidate, *report.candidates) for found in one.overflows]
    hidden = candidate.explanation is None and candidate.runner.fp16 is not None
    hidden &= not isinstance(step, Command)
    return overflows[0] if overflows else "--explain finds the layer" * hidden


def _step(report: DriftReport, candidate: CandidateReport) -> str:
    """The command that converts again in another way; without a file to name, the way in words."""
    flags, model, data = candidate.remedy_flags, report.reference.path, report.data.source
    if candidate.error is not None:
        return ""
    named = model is not None and any(sign in data for sign in "./:") and not report.data.synthetic
    if flags is None or not named:
        return candidate.remedy
    words = ["tfmp-convert", candidate.format, str(model), *shlex.split(flags), "--data", data]
    words += ["-o", candidate.path] if candidate.path else []
    return Command(shlex.join([*words, "--force"]))


def _meaning(candidate: CandidateReport, check: Check) -> str:
    """The declaration that would change a decision that rests on what an output means."""
    output = next((one for one in candidate.outputs if one.name == check.output), None)
    if output is None or check.limit is None or check.name in _DISTANCES:
        return ""
    if output.task.why == DECLARED:
        return ""
    return f"{meaning_text(output)}; declare another with --task {shlex.quote(output.name)}=KIND"
