"""What a report shows, in the order in which it is read: verdict, cause and remedy, then data."""

from dataclasses import fields

from tfmp.converters.drift import DriftBudget, OutputDrift
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.explanation import Explanation
from tfmp.converters.report.figures import (
    BUDGET_LINE,
    budget_bars,
    latency_bars,
    layer_picture,
    layer_table,
    lost_bars,
    size_bars,
    stage_bars,
)
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import (
    STAGES,
    asked_texts,
    data_notes,
    decided_by,
    findings,
    headline,
    meaning_texts,
    number,
    number_of_ms,
    percent,
    runtime_text,
    scope,
    size_text,
    statements_text,
    value_text,
    worst_rel_l2,
)
from tfmp.shared.html_page import NONE, SIGNS, framed
from tfmp.shared.reporting import Picture, Sample, Section, Table, page, table_of
from tfmp.shared.wording import alike_once

_READING = (
    "PASS: every limit is kept; a limit on a rate also by the exact upper bound. FAIL: a limit is "
    "broken, or a value is not finite where the reference's is. INCONCLUSIVE: nothing is proven to "
    "be broken, and nothing to be sound; the reason says what is missing.",
    "Drift, rel. L2: length of the error over length of the reference, over all values. SQNR: that "
    "ratio in decibels. 95 % of samples: error, relative to a sample's own size, that 95 of 100 "
    "samples stay under.",
    "Decision: an answer that follows from an output, such as the class of a token or pixel, a "
    "label or an id. Tie: a decision that the reference itself hardly made. Flip: a sample of "
    "which the candidate decides anything differently. Lost, gained: labelled samples that only "
    "the reference, or only the candidate, has right.",
    "FP16 spacing: distance between neighbouring FP16 numbers; correct rounding is off by half of "
    "one at most.",
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
    """The calls with each batch size, by size and then by model; without rows unless timed."""
    found = [
        (f"{report.reference.name}, Keras {latency.policy}", latency)
        for latency in report.reference.latencies
    ]
    for candidate in report.candidates:
        found += [(candidate.name, latency) for latency in candidate.latencies]
    return table_of(
        "Calls with each batch size. Each file and each size ran in a process of its own; memory "
        "is the highest rise of that process from before it loaded the model",
        sorted(found, key=lambda row: row[1].batch),
        {
            "Samples": lambda row: f"{row[1].batch:,}",
            "Model": lambda row: row[0],
            "Call": lambda row: number_of_ms(row[1]),
            "5 to 95 of 100": lambda row: f"{number(row[1].low_ms)} to {number(row[1].high_ms)} ms",
            "Samples/s": lambda row: (
                f"{row[1].batch / row[1].median_ms * 1e3:,.0f}" if row[1].median_ms else NONE
            ),
            "Memory": lambda row: size_text(row[1].memory_bytes),
        },
        ("Model",),
    )


def sections(report: DriftReport) -> list[Section]:
    """The whole report."""
    floor = (_FLOOR,) if report.reference.noise_floor else ()
    return [
        conclusion(report),
        *(_candidate(report, candidate) for candidate in report.candidates),
        Section(
            "Size and latency" if latency_bars(report) else "Size",
            pictures=(
                Picture("Files beside each other", size_bars(report)),
                Picture(
                    "Median time of one call (5 to 95 of 100 calls), on this machine",
                    latency_bars(report),
                ),
            ),
            tables=(latency_table(report),),
        ),
        Section("How to read this", quiet=(statements_text(report), *_READING, *floor)),
        *_evidence(report),
    ]


def conclusion(report: DriftReport) -> Section:
    """Verdict, cause and remedy of each candidate, and the picture of its budget."""
    facts: list[tuple[str, str]] = []
    for names, lines in findings(report):
        several = f"{names}: " if len(report.candidates) > 1 else ""
        facts += [(several + label, text) for label, text in lines]
    facts += dict.fromkeys(fact for one in report.candidates for fact in scope(report, one))
    caption = (
        "Budget used (bar: measured; thin line: upper bound at "
        f"{report.budget.confidence:.0%} confidence; dashed line: limit)"
    )
    return Section(
        "Verdict",
        tables=(verdict_table(report),),
        facts=tuple(facts),
        pictures=(
            Picture("Share of values that FP16 lost", lost_bars(report.candidates)),
            Picture(caption, budget_bars(report.candidates), BUDGET_LINE),
        ),
        quiet=tuple(f"Note: {note}" for note in data_notes(report)),
    )


def _candidate(report: DriftReport, candidate: CandidateReport) -> Section:
    """Every check of a candidate, and its distances."""
    pictures, tables = [], [*_outputs_tables(candidate), _labels_table(candidate)]
    caption = (
        "Where the drift comes from: relative L2 error that each step added, on a logarithmic scale"
    )
    pictures.append(Picture(caption, stage_bars(report, candidate)))
    lines = [*candidate.reasons, *meaning_texts(candidate)]
    lines += [
        f"{STAGES.get(stage.name, stage.name)}: not measured, {stage.error}"
        for stage in candidate.stages
        if stage.error
    ]
    samples: tuple[Sample, ...] = ()
    if (found := candidate.explanation) is not None:
        lines += asked_texts(report, candidate)
        pictures.append(layer_picture(found, candidate.verdict is Verdict.FAIL))
        tables.append(layer_table(found))
        samples = tuple(
            Sample(
                f"sample {one.index:,}: {f'{one.answer}, ' if one.answer else ''}"
                f"rel. L2 {number(one.error)}",
                one.thumbnail,
            )
            for one in found.worst
        )
    return Section(
        f"{candidate.name} {SIGNS[candidate.verdict]} {candidate.verdict}",
        lines=tuple(lines),
        pictures=tuple(pictures),
        tables=tuple(tables),
        samples=samples,
        quiet=(*(f"Note: {note}" for note in alike_once(candidate.notes)), *_measured_on(found)),
    )


def _measured_on(found: Explanation | None) -> list[str]:
    """How the layers were measured."""
    if found is None or not found.samples:
        return list(found.notes) if found else []
    text = (
        f"Layers were measured on {found.samples} samples, the ones that drifted most and the "
        f"first of the data. {found.computed}"
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
            "95 % of samples": lambda one: number(one.sample_rel_l2),
            "Worst sample": lambda one: number(one.worst_rel_l2),
            "Max abs.": lambda one: number(one.max_abs),
            "Mean abs.": lambda one: number(one.mean_abs),
            "SQNR dB": lambda one: number(one.sqnr_db, 1),
            "1 - cosine": lambda one: number(None if one.cosine is None else 1 - one.cosine),
            "KL": lambda one: number(one.kl),
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
            "Of these ties": lambda one: _count(_ties(one)),
            "Samples flipped": _flips,
            "Top 5 kept": lambda one: percent(one.top_k_agreement),
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
    return NONE if output.flips is None else f"{output.flips:,} of {output.samples:,}"


def _labels_table(candidate: CandidateReport) -> Table:
    """How much worse a candidate's answers are, measured against labels."""
    paired = any(label.mcnemar_p is not None for label in candidate.labels)
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
            "Lost": lambda row: _count(row[1].lost if paired else None),
            "Gained": lambda row: _count(row[1].gained if paired else None),
            "McNemar p": lambda row: number(row[0].mcnemar_p if row[1].primary else None),
            "Samples": lambda row: _count(row[1].samples),
        },
        ("Output", "Labels", "Metric"),
    )


def _evidence(report: DriftReport) -> tuple[Section, ...]:
    """The files, the data and the budget; versions and hardware last."""
    reference, data, budget = report.reference, report.data, report.budget
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
    limits = {name: getattr(budget, name) for name in (item.name for item in fields(DriftBudget))}
    del limits["overrides"]
    for output, own in budget.overrides.items():
        limits |= {f"{name} of {output}": value for name, value in own.items()}
    declared = [
        (name, "not limited" if value is None else str(value)) for name, value in limits.items()
    ]
    return (
        Section("Files and data", facts=tuple(facts)),
        Section("Budget, declared before the run", facts=tuple(declared)),
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
