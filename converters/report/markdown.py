"""The report as Markdown: short enough for a pull request, and as a section of a model card."""

import json
import math

from tfmp.converters.drift import Kind
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.contents import conclusion, latency_table
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import headline, place_of, scope
from tfmp.shared.html_page import SIGNS, printable
from tfmp.shared.reporting import Section, Table, to_markdown as written
from tfmp.shared.wording import alike_once

# The Hub's names of tasks, where they differ and the samples do not matter.
_HUB_TASKS = {Kind.DETECTION: "object-detection"}


def to_markdown(report: DriftReport, *more: Section) -> str:
    """A heading with the verdict, the table of candidates, the reasons, data, budget and `more`."""
    heading = f"{SIGNS[report.verdict]} Drift report: {report.verdict}"
    told = []
    for one in report.candidates:
        facts = place_of(one)
        facts += scope(report, one) if one.verdict is not Verdict.PASS else []  # told there
        told += [(f"{one.name} {name}", text) for name, text in facts]
        told += [(one.name, note) for note in alike_once(one.notes)]
    notes = Section("Notes", facts=tuple(told))
    timed = Section("Latency", tables=(latency_table(report),))
    return written(heading, headline(report), [conclusion(report), notes, timed, *more])


def to_card(report: DriftReport) -> str:
    """A section of a model card for Hugging Face: the report, and hashes of the files it is on.

    Metrics against labels are also its metadata, `model-index` as the Hub documents it in
    https://huggingface.co/docs/hub/model-cards
    """
    named = [(file.name, file.sha256) for file in report.models]
    columns = ("File", "SHA-256")
    files = Table(columns, tuple((name, sum) for name, sum in named if sum), words=columns)
    text = to_markdown(report, Section("Files of this report", tables=(files,)))
    metadata = _model_index(report)
    return "\n".join([*(["---", *metadata, "---", ""] if metadata else []), text])


def _model_index(report: DriftReport) -> list[str]:
    """The lines of YAML."""
    results = []
    for candidate in report.candidates:
        kinds = {output.name: output.task.kind for output in candidate.outputs}
        for label in candidate.labels:
            metrics = [metric for metric in label.metrics if math.isfinite(metric.candidate)]
            if not metrics:
                continue
            kind = kinds.get(label.output, Kind.OTHER)
            source = _yaml(report.data.source)
            results += [
                f"  - task: {{type: {_yaml(_HUB_TASKS.get(kind, str(kind.value)))}}}",
                f"    dataset: {{type: {source}, name: {source}}}",
                "    metrics:",
            ]
            for metric in metrics:
                name = f"{metric.name} of {candidate.name}"
                results.append(
                    f"    - {{type: {_yaml(metric.name.lower().replace(' ', '_'))}, "
                    f"name: {_yaml(name)}, value: {_yaml_number(metric.candidate)}}}"
                )
    if not results:
        return []
    return ["model-index:", f"- name: {_yaml(report.reference.name)}", "  results:", *results]


def _yaml(text: str) -> str:
    """A text as JSON, which YAML reads, too, except for halves of surrogate pairs."""
    return json.dumps(printable(text), ensure_ascii=False)


def _yaml_number(value: float) -> str:
    """A number with a point, without which YAML 1.1 takes 1e-05 for a text."""
    digits, sign, exponent = repr(value).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{sign}{exponent}"
