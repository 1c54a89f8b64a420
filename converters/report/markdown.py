"""The report as Markdown: short enough for a pull request, and as a section of a model card."""

import json
import math
import re
from dataclasses import fields

from tfmp.converters.drift import Kind
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import (
    HEADINGS,
    NONE,
    SIGNS,
    Row,
    data_notes,
    headline,
    latency_cells,
    meaning_texts,
    number,
    printable,
    row_of,
    told,
)
from tfmp.shared.wording import alike_once

# The Hub's names of tasks, where they differ and the samples do not matter.
_HUB_TASKS = {Kind.DETECTION: "object-detection"}

# Signs with a meaning in GitHub's Markdown, in a line or a table cell: marks, tags, entities,
# underscores at the edge of a word, and colons that begin a link or an emoji.
_SPECIAL = re.compile(r"([\\`*\[\]<|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=[\w/]))")


def to_markdown(report: DriftReport) -> str:
    """A heading with the verdict, the table of candidates, the reasons, data and budget."""
    lines = [f"## {SIGNS[report.verdict]} Drift report: {report.verdict}", ""]
    lines += [escape(headline(report)), ""]
    lines += _table(report)
    lines.append("")
    for candidate in report.candidates:
        # A candidate that passed needs no reasons here: the table has its numbers.
        seen = told(report, candidate)
        if candidate.verdict is Verdict.PASS and not candidate.notes and not seen:
            continue
        lines.append(f"- **{escape(candidate.name)}** {candidate.verdict}")
        findings = () if candidate.verdict is Verdict.PASS else candidate.reasons
        lines += [f"  - {escape(reason)}" for reason in findings]
        lines += [f"  - {escape(text)}" for text in (*seen, *meaning_texts(candidate))]
        lines += [f"  - note: {escape(note)}" for note in alike_once(candidate.notes)]
    lines += [f"- note: {escape(note)}" for note in data_notes(report)]
    if lines[-1]:
        lines.append("")
    if cells := latency_cells(report):
        rule = ("---:", "---", *["---:"] * 4)
        rows = (map(escape, row) for row in cells[1:])
        lines += ["| " + " | ".join(row) + " |" for row in (cells[0], rule, *rows)]
        lines.append("")
    lines.append(_small_print(report))
    return "\n".join(lines) + "\n"


def to_card(report: DriftReport) -> str:
    """A section of a model card for Hugging Face: the report, and hashes of the files it is on.

    Metrics against labels are also its metadata, `model-index` as the Hub documents it in
    https://huggingface.co/docs/hub/model-cards
    """
    lines = ["### Files of this report", "", "| File | SHA-256 |", "| --- | --- |"]
    files = [(file.name, file.sha256) for file in report.candidates]
    for name, digest in [(report.reference.name, report.reference.sha256), *files]:
        if digest is not None:
            lines.append(f"| {escape(name)} | `{digest}` |")
    metadata = _model_index(report)
    head = ["---", *metadata, "---", ""] if metadata else []
    return "\n".join([*head, to_markdown(report), *lines]) + "\n"


def _model_index(report: DriftReport) -> list[str]:
    """The lines of YAML; texts are JSON's, which YAML reads, too."""
    results = []
    for candidate in report.candidates:
        kinds = {output.name: output.task.kind for output in candidate.outputs}
        for label in candidate.labels:
            metrics = [metric for metric in label.metrics if math.isfinite(metric.candidate)]
            if not metrics:
                continue
            kind = kinds.get(label.output, Kind.OTHER)
            results += [
                f"  - task: {{type: {json.dumps(_HUB_TASKS.get(kind, str(kind.value)))}}}",
                f"    dataset: {{type: {json.dumps(report.data.source)}, "
                f"name: {json.dumps(report.data.source)}}}",
                "    metrics:",
            ]
            for metric in metrics:
                name = f"{metric.name} of {candidate.name}"
                results.append(
                    f"    - {{type: {json.dumps(metric.name.lower().replace(' ', '_'))}, "
                    f"name: {json.dumps(name)}, value: {json.dumps(metric.candidate)}}}"
                )
    if not results:
        return []
    return ["model-index:", f"- name: {json.dumps(report.reference.name)}", "  results:", *results]


def escape(text: str) -> str:
    """The text, escaped: Markdown shows any characters as they are."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _table(report: DriftReport) -> list[str]:
    names = [item.name for item in fields(Row) if item.name != "verdict"]
    rows = [row_of(candidate) for candidate in report.candidates]
    shown = [name for name in names if any(getattr(row, name) != NONE for row in rows)]
    lines = ["| " + " | ".join([*(getattr(HEADINGS, name) for name in shown), "Verdict"]) + " |"]
    lines.append("|" + " --- |" * (len(shown) + 1))
    for row in rows:
        cells = [escape(getattr(row, name)) for name in shown]
        cells.append(f"{SIGNS[row.verdict]} **{row.verdict}**")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _small_print(report: DriftReport) -> str:
    budget = report.budget
    limits: dict[str, float | None] = {
        "rel_l2": budget.rel_l2,
        "max_abs": budget.max_abs,
        "flip_rate": budget.flip_rate,
    }
    errors = {
        metric.lower_is_better
        for candidate in report.candidates
        for label in candidate.labels
        for metric in label.metrics
    }
    if False in errors:
        name = "accuracy_drop" if budget.accuracy_ratio is None else "accuracy_ratio"
        limits[name] = getattr(budget, name)
    if True in errors and budget.error_added is not None:
        limits["error_added"] = budget.error_added
    elif True in errors:
        limits |= {"error_increase": budget.error_increase, "error_floor": budget.error_floor}
    shown = [f"{name} {number(value)}" for name, value in limits.items() if value is not None]
    shown += [
        f"{name} of {output} {number(value) if value is not None else 'none'}"
        for output, own in budget.overrides.items()
        for name, value in own.items()
    ]
    return (
        f"Data: {escape(report.data.source)}, {report.data.samples:,} samples, "
        f"sha256 {report.data.sha256[:12]}. Budget: {escape(', '.join(shown)) or 'none'}, "
        f"confidence {budget.confidence:.0%}."
    )
