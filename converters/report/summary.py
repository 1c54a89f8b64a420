"""Numbers and names for people, and the table that every rendering begins with."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfmp.converters.drift import (
    ACCURACY,
    DECLARED,
    Kind,
    LabelDrift,
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

# A sign beside each verdict, so that colour is never the only cue.
SIGNS = {Verdict.PASS: "✓", Verdict.FAIL: "✗", Verdict.INCONCLUSIVE: "?"}

_FP16 = {
    "native": "native",
    "emulated": "emulated",
    "weights-only": "weights only",
    None: "none (FP32)",
}


@dataclass(frozen=True)
class Row:
    """One candidate in the summary table; each number is the worst output's."""

    candidate: str
    runner: str
    fp16: str
    rel_l2: str
    max_abs: str
    sqnr_db: str
    flips: str
    score: str
    size: str
    latency: str
    verdict: Verdict


HEADINGS = Row(
    candidate="Candidate",
    runner="Runner",
    fp16="FP16",
    rel_l2="Rel. L2",
    max_abs="Max abs.",
    sqnr_db="SQNR dB",
    flips="Flips",
    score="Score",
    size="Size",
    latency="Latency",
    verdict=Verdict.PASS,
)


def row_of(candidate: CandidateReport) -> Row:
    """A candidate's row of the summary table."""
    return Row(
        candidate=printable(candidate.name),
        runner=runner_text(candidate.runner),
        fp16=fp16_text(candidate.runner),
        rel_l2=number(_worst_rel_l2(candidate.outputs)),
        max_abs=number(_worst(candidate.outputs, lambda output: output.max_abs)),
        sqnr_db=number(_worst(candidate.outputs, lambda output: output.sqnr_db, min), decimals=1),
        flips=_flips(candidate),
        score=_score(candidate),
        size=size_text(candidate.size_bytes),
        latency=number_of_ms(candidate.latency),
        verdict=candidate.verdict,
    )


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
        (STAGES.get(stage.name, printable(stage.name)), _worst_rel_l2(stage.outputs))
        for stage in candidate.stages
    ]
    if report.reference.noise_floor:
        found.insert(0, ("FP32 noise floor", _worst_rel_l2(report.reference.noise_floor)))
    return [*found, ("all together", _worst_rel_l2(candidate.outputs))]


def stage_text(report: DriftReport, candidate: CandidateReport) -> str:
    """The errors that each step added, in a line; "" unless stages were measured."""
    values = stage_values(report, candidate)
    if not values:
        return ""
    return "rel. L2 by step: " + ", ".join(f"{name} {number(value)}" for name, value in values)


def _worst_rel_l2(outputs: Sequence[OutputDrift]) -> float | None:
    return _worst(outputs, lambda output: output.rel_l2)


def culprit_text(candidate: CandidateReport) -> str:
    """The place to look at first, in a sentence; "" unless a drift was explained."""
    explanation = candidate.explanation
    if explanation is None:
        return ""
    if explanation.error is not None:
        return f"Layers not measured: {printable(explanation.error)}"
    culprit = explanation.culprit
    if culprit is None:
        return ""
    failed = candidate.verdict is Verdict.FAIL
    text = (
        f"{'Look first at' if failed else 'Most of the drift comes from'} layer {culprit.layer!r}"
    )
    text += f": {culprit.why}{_growth_text(explanation, culprit)}"
    if culprit.node:
        alone = (
            f"{culprit.local_nonfinite:,} values that are not finite"
            if culprit.local_nonfinite
            else f"a relative L2 error of {number(culprit.local)}"
        )
        text += f"; its {culprit.op} {culprit.node!r} alone gives {alone}"
    if culprit.folder is not None:
        text += f"; python {culprit.folder}/reproduce.py shows it"
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


def worst_text(candidate: CandidateReport) -> str:
    """The samples that drifted most, in a line; "" unless the drift was explained."""
    worst = candidate.explanation.worst if candidate.explanation is not None else ()
    if not worst:
        return ""
    shown = ", ".join(f"{sample.index} ({number(sample.error)})" for sample in worst[:3])
    return f"Worst samples (rel. L2): {shown}"


def holds_text(report: DriftReport, candidate: CandidateReport) -> str:
    """The hardware or runtimes that a verdict is about, in a sentence; "" if it is none."""
    runtime = candidate.runner.details.get(HOLDS_FOR, "")
    if not runtime:
        return ""
    judged = {item.runner.details.get(HOLDS_FOR, "") for item in report.candidates}
    text = f"The verdict holds for {runtime}"
    if candidate.format == "onnx":
        others = [name for name, title in runtimes().items() if title not in judged]
        text += f"; not judged: {', '.join(others)} (--target)" if others else ""
    return printable(f"{text}.")


def sizes_text(report: DriftReport, candidate: CandidateReport) -> str:
    """The open sizes that the samples had, in a sentence; "" if the model fixes all."""
    if candidate.synthetic_sizes:
        sizes = candidate.synthetic_sizes
        return printable(f"Sizes judged: {sizes} (synthetic: the data's values repeated or cut).")
    seen = [
        f"{axis}: {low:,} to {high:,}" if low != high else f"{axis}: {low:,} only"
        for axis, (low, high) in sorted(report.data.sizes.items())
    ]
    return printable(f"Sizes judged: {', '.join(seen)}.") if seen else ""


def scope_texts(report: DriftReport, candidate: CandidateReport) -> list[str]:
    """The runtime and the sizes that a verdict holds for, in a sentence each."""
    return [text for text in (holds_text(report, candidate), sizes_text(report, candidate)) if text]


def told(report: DriftReport, candidate: CandidateReport) -> list[str]:
    """A line each on runtime, steps, layers and samples, as far as they were looked at."""
    lines = (
        *scope_texts(report, candidate),
        stage_text(report, candidate),
        culprit_text(candidate),
        worst_text(candidate),
    )
    return [line for line in lines if line]


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
        boxes = "with boxes " if task.kind is Kind.DETECTION else ""
        where.append(f"{boxes}in the columns {', '.join(map(str, task.columns))}")
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
    judged = [each for each in report.candidates if not each.synthetic_sizes]
    count, made = len(judged), len(report.candidates) - len(judged)
    passed = sum(candidate.verdict is Verdict.PASS for candidate in judged)
    kind = "synthetic samples" if report.data.synthetic else "samples"
    failed = sum(each.verdict is Verdict.FAIL for each in report.candidates if each.synthetic_sizes)
    sizes = f"; {failed} of {made} failed on samples of made sizes" if made else ""
    return (
        f"{passed} of {count} candidate{'' if count == 1 else 's'} passed against "
        f"{printable(report.reference.name)}, on {report.data.samples:,} {kind}{sizes}."
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


def runner_text(runner: RunnerInfo) -> str:
    """Runner and device, such as "onnxruntime, CPU"; `NONE` if nothing ran."""
    if runner.name == "none":
        return NONE
    return printable(f"{runner.name}, {runner.device}")


def fp16_text(runner: RunnerInfo) -> str:
    """The runner's kind of FP16; `NONE` if nothing ran."""
    if runner.name == "none":
        return NONE
    return _FP16.get(runner.fp16, printable(runner.fp16 or ""))


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


def latency_rows(report: DriftReport) -> list[tuple[str, Latency]]:
    """The calls with each batch size: name of the model and its latency, by size and then by model.

    The list is empty unless batch sizes were asked for.
    """
    found = [
        (f"{report.reference.name}, Keras {latency.policy}", latency)
        for latency in report.reference.latencies
    ]
    for candidate in report.candidates:
        found += [(candidate.name, latency) for latency in candidate.latencies]
    return sorted(found, key=lambda row: row[1].batch)


def latency_cells(report: DriftReport) -> list[tuple[str, ...]]:
    """The table of these calls; its first row is the heading. Empty without calls."""
    rows = latency_rows(report)
    cells = [
        (
            f"{latency.batch:,}",
            printable(name),
            number_of_ms(latency),
            f"{number(latency.low_ms)} to {number(latency.high_ms)} ms",
            f"{latency.batch / latency.median_ms * 1e3:,.0f}" if latency.median_ms else NONE,
            size_text(latency.memory_bytes),
        )
        for name, latency in rows
    ]
    heading = ("Samples", "Model", "Call", "5 to 95 of 100", "Samples/s", "Memory")
    return [heading, *cells] if cells else []


def _worst(
    outputs: Sequence[OutputDrift],
    metric: Callable[[OutputDrift], float | None],
    pick: Callable[[list[float]], float] = max,
) -> float | None:
    """The metric of the worst output: NaN if any is; None if none has it."""
    values = [value for value in map(metric, outputs) if value is not None]
    undefined = [value for value in values if math.isnan(value)]
    return (undefined or [pick(values)])[0] if values else None


def _flips(candidate: CandidateReport) -> str:
    decided = [
        (output.flips, output.samples)
        for output in candidate.outputs
        if output.flips is not None and output.samples
    ]
    if not decided:
        return NONE
    flips, samples = max(decided, key=lambda pair: pair[0] / pair[1])
    return f"{flips:,}/{samples:,}"


def _score(candidate: CandidateReport) -> str:
    """The primary metric on labels that became worst, and its change."""
    if not candidate.labels:
        return NONE
    label = max(candidate.labels, key=_worsening)
    shown = score_text(label.metrics[0]) if label.metrics else percent(label.candidate)
    return shown if label.metric == ACCURACY else f"{printable(label.metric)} {shown}"


def _worsening(label: LabelDrift) -> float:
    """How much worse the primary metric is, relative to the reference's."""
    if not label.metrics:
        return 0.0
    first = label.metrics[0]
    return first.worse / abs(first.reference) if first.reference else first.worse


def score_text(metric: Metric) -> str:
    """A share with its change in points, or an error or a metric of the user's with its change."""
    change = metric.candidate - metric.reference
    if metric.lower_is_better or metric.own:
        return f"{number(metric.candidate)} ({change:+.3g})"
    return f"{percent(metric.candidate)} ({round(change * 100, 2) + 0.0:+.2f})"


def value_text(metric: Metric, value: float) -> str:
    """A value of a metric, or a difference between two."""
    if metric.lower_is_better or metric.own:
        return number(value)
    return percent(value)
