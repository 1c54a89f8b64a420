"""Numbers, names and sentences for people, as every rendering has them."""

import math
import re
from collections.abc import Sequence

from tfmp.converters.drift import (
    DECLARED,
    Kind,
    Metric,
    OutputDrift,
    no_better_than_chance,
)
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.onnx.emulation import runtimes
from tfmp.converters.report.explanation import Culprit, Explanation
from tfmp.converters.report.model import CandidateReport, DataReport, DriftReport, Latency
from tfmp.converters.runners import HOLDS_FOR, RunnerInfo
from tfmp.shared.html_page import NONE, printable
from tfmp.shared.wording import alike_once

_FP16 = {
    "native": "FP16",
    "emulated": "FP16 emulated",
    "weights-only": "FP16 weights only",
    None: "FP32",
}

# The names of the steps from the reference to a candidate.
STAGES = {
    "export": "FP32 file",
    "weights": "FP16 weights",
    "arithmetic": "FP16 arithmetic",
}


def stage_values(report: DriftReport, candidate: CandidateReport) -> list[tuple[str, float | None]]:
    """The relative L2 error that each step added to its worst output, noise floor first.

    The list is empty unless stages were measured.
    """
    if not candidate.stages:
        return []
    found = [
        (STAGES.get(stage.name, printable(stage.name)), worst_rel_l2(stage.outputs))
        for stage in candidate.stages
    ]
    if report.reference.noise_floor:
        found.insert(0, ("FP32 noise floor", worst_rel_l2(report.reference.noise_floor)))
    return [*found, ("all together", worst_rel_l2(candidate.outputs))]


def worst_rel_l2(outputs: Sequence[OutputDrift]) -> float | None:
    """The relative L2 error of the worst output: NaN if any is; None if none has one."""
    values = [output.rel_l2 for output in outputs if output.rel_l2 is not None]
    return max(values, key=lambda value: (math.isnan(value), value), default=None)


def culprit_text(candidate: CandidateReport) -> str:
    """The place to look at first, in a sentence; "" unless a drift was explained."""
    explanation = candidate.explanation
    if explanation is None:
        return ""
    if explanation.error is not None:
        return f"layers not measured: {printable(explanation.error)}"
    culprit = explanation.culprit
    if culprit is None:
        return ""
    text = f"layer {culprit.layer!r}: {culprit.why}{_growth_text(explanation, culprit)}"
    if culprit.node:
        alone = (
            f"{culprit.local_nonfinite:,} values that are not finite"
            if culprit.local_nonfinite
            else f"a relative L2 error of {number(culprit.local)}"
        )
        text += f"; its {culprit.op} {culprit.node!r} alone gives {alone}"
    if culprit.folder is not None:
        text += f": python {culprit.folder}/reproduce.py"
    return printable(text)


def _growth_text(explanation: Explanation, culprit: Culprit) -> str:
    """The jump of the error in the culprit, and its cause; "" unless it is known and finite."""
    layer = next((one for one in explanation.layers if one.layer == culprit.layer), None)
    if layer is None or not 0 < layer.jump < math.inf or layer.nonfinite or layer.local_nonfinite:
        return ""
    text = f", from {number(layer.cumulative - layer.jump)} to {number(layer.cumulative)}"
    if layer.local < layer.jump / 2:
        text += ", mostly by amplifying the error of its inputs, not by its own rounding"
    return text


def asked_texts(report: DriftReport, candidate: CandidateReport) -> list[str]:
    """A line each on steps and layers, as far as a run was asked to measure them."""
    found = []
    if values := stage_values(report, candidate):
        steps = ", ".join(f"{name} {number(value)}" for name, value in values)
        found.append(f"Rel. L2 by step: {steps}")
    if candidate.verdict is not Verdict.FAIL and (text := culprit_text(candidate)):
        found.append(f"Most of the drift comes from {text}")
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
        found.append(("holds for", printable(text)))
    seen = [
        f"{axis}: {low:,} to {high:,}" if low != high else f"{axis}: {low:,} only"
        for axis, (low, high) in sorted(report.data.sizes.items())
    ]
    return [*found, ("sizes", printable(", ".join(seen)))] if seen else found


def meaning_texts(candidate: CandidateReport) -> list[str]:
    """A sentence on each output: what it means and how that is known."""
    return [meaning_text(output) for output in candidate.outputs if output.samples]


def meaning_text(output: OutputDrift) -> str:
    """What an output means and how that is known, in a sentence."""
    task = output.task
    how = "as declared" if task.why == DECLARED else f"because {task.why}"
    if task.kind is Kind.OTHER:
        return printable(f"output {output.name!r} is judged by distances, {how}")
    where = []
    if task.axis != -1:
        where.append(f"along axis {task.axis}")
    if task.columns:
        where.append(f"with boxes in the columns {', '.join(map(str, task.columns))}")
    text = " ".join([f"output {output.name!r} is read as {task.kind}", *where])
    return printable(f"{text}, {how}")


def statements_text(report: DriftReport) -> str:
    """How sure the verdicts are, in a sentence, and with how many statements together."""
    counts = [
        sum(check.p is not None or check.upper is not None for check in candidate.checks)
        for candidate in report.candidates
    ]
    confidence = report.budget.confidence
    return (
        f"Bounds for each candidate: {', '.join(map(str, counts))}, each at {confidence:.0%} "
        "confidence. A PASS needs all of them, so a candidate that is over any one limit passes in "
        f"at most {1 - confidence:.0%} of such tests. A FAIL by a bound is corrected for their "
        f"number (Holm), so a sound candidate fails in at most {1 - confidence:.0%}."
    )


def headline(report: DriftReport) -> str:
    """The report in one sentence."""
    count = len(report.candidates)
    passed = sum(candidate.verdict is Verdict.PASS for candidate in report.candidates)
    kind = "synthetic samples" if report.data.synthetic else "samples"
    return (
        f"{passed} of {count} candidate{'' if count == 1 else 's'} passed against "
        f"{printable(report.reference.name)}, on {report.data.samples:,} {kind}."
    )


def data_notes(report: DriftReport) -> list[str]:
    """Notes on the samples and their labels."""
    labels = [label for candidate in report.candidates for label in candidate.labels]
    odd = filter(None, map(no_better_than_chance, labels))
    return alike_once([*nonfinite_notes(report.data), *report.data.notes, *dict.fromkeys(odd)])


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
    return printable(f"{where}, {_FP16.get(runner.fp16, runner.fp16 or '')}")


def number(value: float | None, decimals: int | None = None) -> str:
    """A number with three significant digits, or a fixed number of decimals; "-" for None."""
    if value is None:
        return NONE
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if decimals is not None:
        return _unsigned(f"{value:.{decimals}f}")
    return f"{value:.3g}"


def _unsigned(text: str) -> str:
    """A zero that was rounded from below is a zero."""
    return text[1:] if re.fullmatch(r"-0(\.0+)?%?", text) else text


def percent(value: float | None) -> str:
    """A share with two decimals and a percent sign."""
    return (
        _unsigned(f"{value:.2%}") if value is not None and math.isfinite(value) else number(value)
    )


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


def latency_text(latency: Latency) -> str:
    """The median latency with its spread, runner and device."""
    each = "a sample" if latency.batch == 1 else f"{latency.batch} samples"
    return printable(
        f"{number(latency.median_ms)} ms ({number(latency.low_ms)} to {number(latency.high_ms)}) "
        f"for {each} on {latency.runner}, {latency.device}"
    )


def value_text(metric: Metric, value: float) -> str:
    """A value of a metric, or a difference between two."""
    if metric.lower_is_better or metric.own:
        return number(value)
    return percent(value)
