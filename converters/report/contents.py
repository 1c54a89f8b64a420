"""What a report shows, in the order in which it is read: verdict, cause and remedy, then data.

The page has all of it, the terminal and Markdown the conclusion and what belongs to it.
"""

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tfmp.converters.drift import OutputDrift
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.explanation import Explanation, WorstSample
from tfmp.converters.report.figures import BUDGET_LINE, budget_bars, layer_picture
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import (
    asked_for,
    data_notes,
    decided_by,
    findings,
    headline,
    limits,
    meaning_text,
    number,
    number_of_ms,
    runtime_text,
    scope,
    size_text,
    small_print,
    value_text,
    worst_rel_l2,
)
from tfmp.shared.html_page import NONE, SIGNS, framed, printable
from tfmp.shared.reporting import (
    Command,
    Picture,
    Sample,
    Section,
    Table,
    page,
    print_section,
    print_table,
    table_of,
    to_markdown as markdown,
)
from tfmp.shared.wording import alike_once

if TYPE_CHECKING:
    from rich.console import Console

_READING = (
    "PASS: every number keeps its limit, and the upper bound of every rate, too. FAIL: a limit is "
    "exceeded, or a value is not finite where the reference's is. INCONCLUSIVE: neither is proven; "
    "the reason says what is missing.",
    "Drift, rel. L2: length of the error over length of the reference, over all values. SQNR: that "
    "ratio in decibels. 95th percentile, worst sample: of the errors of single samples, each "
    "relative to the sample's own length.",
    "Decision: an answer that follows from an output, such as the class of a token or pixel, a "
    "label or an id. Tie: the reference's two best answers are nearly equal. Flip: a sample with a "
    "changed decision. Lost, gained: labelled samples that only the reference, or only the "
    "candidate, has right.",
    "Bounds: a PASS needs all of them, each at the budget's confidence. A FAIL by a bound is "
    "corrected for their number (Holm).",
    "FP16 weights only: the runner computed in FP32, so the report says nothing about overflow "
    "inside the model. FP16 emulated: every FP16 tensor was rounded as a GPU would.",
)

_FLOOR = (
    "FP32 noise floor: distance of the float32 reference from the same model in float64; drift of "
    "that size is not FP16's doing."
)


def verdict_table(report: DriftReport) -> Table:
    """A row for each candidate: its verdict, and the check that decides it."""
    return table_of(
        "",
        report.candidates,
        {
            "Candidate": lambda one: one.name,
            "Verdict": lambda one: f"{SIGNS[one.verdict]} {one.verdict}",
            "Decided by": decided_by,
            "Drift": lambda one: number(worst_rel_l2(one.outputs)),
            "Size": lambda one: size_text(one.size_bytes),
            "Latency": lambda one: number_of_ms(one.latency),
            "Runtime": lambda one: runtime_text(one.runner),
        },
        ("Candidate", "Verdict", "Decided by", "Runtime"),
    )


def latency_table(report: DriftReport) -> Table:
    """The calls that were timed, by number of samples and then by model; without rows if none."""
    found = []
    for one in report.models:
        for latency in one.latencies or filter(None, [one.latency]):
            policy = f", Keras {latency.policy}" if latency.policy else ""
            found.append((f"{one.name}{policy}", latency))
    return table_of(
        "Median latency without emulation; memory: peak of a separate process, loading included",
        sorted(found, key=lambda row: row[1].batch),
        {
            "Samples": lambda row: f"{row[1].batch:,}",
            "Model": lambda row: row[0],
            "Call": lambda row: number_of_ms(row[1]),
            "5th to 95th percentile": lambda row: (
                f"{number(row[1].low_ms)} to {number(row[1].high_ms)} ms"
            ),
            "Samples/s": lambda row: (
                f"{row[1].batch / row[1].median_ms * 1e3:,.0f}" if row[1].median_ms else NONE
            ),
            "Memory": lambda row: size_text(row[1].memory_bytes),
            "Runs on": lambda row: f"{row[1].runner}, {row[1].device}",
        },
        ("Model", "Runs on"),
    )


def sections(report: DriftReport) -> list[Section]:
    """The whole report."""
    floor = (_FLOOR,) if report.reference.noise_floor else ()
    return [
        conclusion(report),
        *(candidate_section(report, one) for one in report.candidates),
        Section("Latency", tables=(latency_table(report),)),
        Section("How to read this", quiet=(*_READING, *floor)),
        *_evidence(report),
    ]


def conclusion(report: DriftReport, short: bool = False) -> Section:
    """Verdict, cause and remedy of each candidate, and the picture of its budget.

    Args:
        report: of a comparison.
        short: leaves out what a PASS holds for, samples and limits.
    """
    parts: dict[tuple[tuple[str, str], ...], dict[str, list[tuple[str, str]]]] = {}
    for one in report.candidates:
        facts = [*findings(report, one), *asked_for(report, one)]
        facts += scope(report, one) if one.verdict is Verdict.PASS and not short else []
        # Commands name their file: candidates with the same cause stand together.
        same = tuple((name, "" if isinstance(text, Command) else text) for name, text in facts)
        parts.setdefault(same, {})[one.name] = facts
    caption = (
        f"Budget used, upper bound (line, {report.budget.confidence:.0%} confidence) and limit "
        "(dashed)"
    )
    notes = [f"Note: {note}" for note in data_notes(report)]
    return Section(
        "Verdict",
        tables=(verdict_table(report),),
        parts=tuple(
            Section(", ".join(each), facts=tuple(dict.fromkeys(chain(*lines))))
            for each in parts.values()
            for lines in [zip(*each.values(), strict=True)]
        ),
        pictures=(Picture(caption, budget_bars(report.candidates), BUDGET_LINE),),
        quiet=(*notes, *(() if short else (small_print(report),))),
    )


def candidate_section(report: DriftReport, candidate: CandidateReport) -> Section:
    """Every check of a candidate, and its distances."""
    found = candidate.explanation
    failed = candidate.verdict is Verdict.FAIL
    return Section(
        f"{candidate.name} {SIGNS[candidate.verdict]} {candidate.verdict}",
        lines=(
            *candidate.reasons,
            *(meaning_text(one) for one in candidate.outputs if one.samples),
        ),
        facts=() if candidate.verdict is Verdict.PASS else tuple(scope(report, candidate)),
        pictures=() if found is None else (layer_picture(found, failed),),
        tables=(*_outputs_tables(candidate), _labels_table(candidate)),
        samples=tuple(map(_sample, found.worst)) if found is not None else (),
        quiet=(*(f"Note: {note}" for note in alike_once(candidate.notes)), *_measured_on(found)),
    )


def _sample(one: WorstSample) -> Sample:
    answer = f"{one.answer}, " if one.answer else ""
    text = f"sample {one.index:,}: {answer}rel. L2 {number(one.error)}"
    return Sample(text, one.thumbnail)


def _measured_on(found: Explanation | None) -> list[str]:
    """How the layers were measured."""
    if found is None or not found.samples:
        return list(found.notes) if found else []
    text = (
        f"Layers were measured on {found.samples} samples, the ones that drifted most. "
        f"{found.computed}"
    )
    if found.baseline is not None:
        text += f". That FP32 run is {number(found.baseline)} from the reference"
    return [text, *found.notes]


def _outputs_tables(candidate: CandidateReport) -> tuple[Table, ...]:
    """How far each output is from the reference's, and what it decides otherwise."""
    distances = table_of(
        "Distance from the reference, by output",
        [output for output in candidate.outputs if output.rel_l2 is not None],
        {
            "Output": lambda one: f"{one.name} {one.dtype}",
            "Rel. L2": lambda one: number(one.rel_l2),
            "95th percentile": lambda one: NONE if one.nonfinite else number(one.sample_rel_l2),
            "Worst sample": lambda one: number(one.worst_rel_l2),
            "Max abs.": lambda one: number(one.max_abs),
            "SQNR dB": lambda one: number(one.sqnr_db, 1),
            "Non-finite": lambda one: f"{one.nonfinite:,}",
        },
        ("Output",),
    )
    decisions = table_of(
        "Decisions that change, by output",
        [output for output in candidate.outputs if output.decision],
        {
            "Output": lambda one: one.name,
            "Meaning": lambda one: str(one.task.kind),
            "Decided by": lambda one: one.decision,
            "Decisions": lambda one: _count(one.decided),
            "Changed": lambda one: _count(one.changed),
            "Ties among them": lambda one: _count(_ties(one)),
            "Samples flipped": _flips,
        },
        ("Output", "Meaning", "Decided by"),
    )
    return distances, decisions


def _count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def _ties(output: OutputDrift) -> int | None:
    counted = output.decisions
    return output.changed - counted.firm if counted and output.changed is not None else None


def _flips(output: OutputDrift) -> str:
    unknown = output.flips is None or output.nonfinite  # NaN is no answer
    return NONE if unknown else f"{output.flips:,} of {output.samples:,}"


def _labels_table(candidate: CandidateReport) -> Table:
    """How much worse a candidate's answers are, measured against labels."""
    return table_of(
        "Answers against the labels; bounds at 95 % confidence, from distinct samples",
        [(label, metric) for label in candidate.labels for metric in label.metrics],
        {
            "Output": lambda row: row[0].output or "all",
            "Labels": lambda row: row[0].kind,
            "Metric": lambda row: row[1].name,
            "Reference": lambda row: value_text(row[1], row[1].reference),
            "Candidate": lambda row: value_text(row[1], row[1].candidate),
            "Worse by at least": lambda row: value_text(row[1], row[1].lower),
            "Worse by at most": lambda row: value_text(row[1], row[1].upper),
            "Lost": lambda row: _count(row[1].lost),
            "Gained": lambda row: _count(row[1].gained),
            "Samples": lambda row: _count(row[1].samples),
        },
        ("Output", "Labels", "Metric"),
    )


def _evidence(report: DriftReport) -> tuple[Section, ...]:
    """The files, the data and the budget; versions and hardware last."""
    reference, data = report.reference, report.data
    of = f"{reference.format}, {runtime_text(reference.runner)}" if reference.runner else ""
    facts = [
        ("Reference", f"{reference.name} ({of or reference.format})"),
        ("Reference file", f"{reference.path}, {size_text(reference.size_bytes)}"),
        ("Reference SHA-256", reference.sha256 or NONE),
        *(("Note", note) for note in alike_once(reference.notes)),
        (
            "Data",
            f"{data.source}: {data.samples:,} {'synthetic ' if data.synthetic else ''}samples, "
            f"{'with' if data.labelled else 'without'} labels",
        ),
        ("Data SHA-256", data.sha256),
    ]
    for candidate in report.candidates:
        facts += [
            (candidate.name, f"{candidate.path or NONE}, {size_text(candidate.size_bytes)}"),
            (f"{candidate.name} SHA-256", candidate.sha256 or NONE),
            *((f"{candidate.name} {key}", text) for key, text in candidate.runner.details.items()),
        ]
    return (
        Section("Files and data", facts=tuple(facts)),
        Section("Budget, declared before the run", facts=tuple(limits(report.budget).items())),
        Section("Environment", facts=tuple(report.environment.items())),
    )


def to_html(report: DriftReport) -> str:
    """The report as a page with inline style and pictures, without scripts or other files."""
    name = report.reference.name
    title = f"{report.verdict}: drift of {name}"
    return page(title, f"Drift of {name}", headline(report), sections(report), report.verdict)


def to_cell(report: DriftReport) -> str:
    """The page in the output of a notebook's cell."""
    text = f"{SIGNS[report.verdict]} {report.verdict}: {headline(report)}"
    return framed(text, to_html(report))


def to_markdown(report: DriftReport) -> str:
    """The verdict, the conclusion, notes, latency and hashes, for pull requests and model cards."""
    heading = f"{SIGNS[report.verdict]} Drift report: {report.verdict}"
    told = []
    for one in report.candidates:
        facts = scope(report, one) if one.verdict is not Verdict.PASS else []  # told there
        told += [(f"{one.name} {name}", text) for name, text in facts]
        told += [(one.name, note) for note in alike_once(one.notes)]
    notes = Section("Notes", facts=tuple(told))
    timed = Section("Latency", tables=(latency_table(report),))
    columns = ("File", "SHA-256")
    hashes = tuple((file.name, file.sha256) for file in report.models if file.sha256)
    files = Section("Files of this report", tables=(Table(columns, hashes, words=columns),))
    return markdown(heading, headline(report), [conclusion(report), notes, timed, files])


# Columns that a narrow terminal leaves out, in this order; every file has them.
_DISPENSABLE = ("Size", "Latency", "Drift", "Runtime", "5th to 95th percentile", "Samples/s")


def print_report(report: DriftReport, console: "Console", verbose: bool = False) -> None:
    """Prints the table of candidates, and under it what to do about those that do not pass.

    Args:
        report: of a comparison.
        console: the terminal.
        verbose: also print every reason, the meaning of outputs and notes.
    """
    print_section(conclusion(report, short=not verbose), console, _DISPENSABLE, titled=False)
    for candidate in report.candidates if verbose else ():
        print_section(replace(candidate_section(report, candidate), tables=()), console)
    print_table(latency_table(report), console, _DISPENSABLE)
    print_verdict(report, console)


def print_verdict(report: DriftReport, console: "Console") -> None:
    """Prints the verdict in a line."""
    from rich.text import Text

    colour = {Verdict.PASS: "green", Verdict.FAIL: "red"}.get(report.verdict, "yellow")
    sign = Text(f"{SIGNS[report.verdict]} {report.verdict}", style=f"bold {colour}")
    console.print(sign.append(f"  {printable(headline(report))}", "none"))
