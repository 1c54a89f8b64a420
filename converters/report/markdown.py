"""The report as Markdown: short enough for a pull request, and as a section of a model card."""

import json
import math
import re

from tfmp.converters.drift import Kind
from tfmp.converters.report.contents import latency_table, verdict_table
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import (
    asked_texts,
    data_notes,
    findings,
    headline,
    number,
    scope,
)
from tfmp.shared.html_page import SIGNS, printable
from tfmp.shared.reporting import VERDICTS, Table
from tfmp.shared.wording import alike_once

# The Hub's names of tasks, where they differ and the samples do not matter.
_HUB_TASKS = {Kind.DETECTION: "object-detection"}

# Signs with a meaning in GitHub's Markdown, in a line or a table cell: marks, tags, entities,
# formulas, addresses, underscores at the edge of a word, and colons that begin a link or an emoji.
_SPECIAL = re.compile(
    r"([\\`*\[\]<|~&$@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=[\w/])|(?<=www)\.)"
)

# Signs with a meaning at the beginning of a line: headings, quotes, lists, rules, and numbers.
_LEADING = re.compile(r"(\d*)([#>+=.)-])")


class _Markdown(str):
    """A text that is Markdown; every other text is escaped where it is written."""


class _Page:
    """Lines of Markdown, written from texts that mean nothing in it, and from `_Markdown`."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __str__(self) -> str:
        return "\n".join(self._lines).rstrip("\n") + "\n"

    def heading(self, level: int, text: str) -> None:
        """A heading between empty lines."""
        self.gap()
        self._lines += [f"{'#' * level} {_inline(text)}", ""]

    def paragraph(self, *parts: str) -> None:
        """A line that stands by itself."""
        self.gap()
        self._lines += [_block(*parts), ""]

    def item(self, *parts: str, level: int = 0) -> None:
        """A line of a list; a mark without a text would underline the line before it."""
        if line := _block(*parts):
            self._lines.append(f"{'  ' * level}- {line}")

    def table(self, table: Table) -> None:
        """The table, unless it has no rows."""
        if not table.rows:
            return
        self.gap()
        rules = [_Markdown("---" if name in table.words else "---:") for name in table.heading]
        for row in (table.heading, rules, *table.rows):
            self._lines.append(f"| {' | '.join(map(_cell, row))} |")
        self._lines.append("")

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if self._lines and self._lines[-1]:
            self._lines.append("")


def _inline(text: str) -> str:
    return text if isinstance(text, _Markdown) else escape(text)


def _cell(text: str) -> str:
    return _bold(text) if text in VERDICTS else _inline(text)


def _block(*parts: str) -> str:
    """A line whose first sign begins nothing but a text."""
    line = "".join(map(_inline, parts)).strip()
    leading = _LEADING.match(line)
    return f"{leading[1]}\\{line[leading.end(1) :]}" if leading else line


def _bold(text: str) -> _Markdown:
    shown = escape(text).strip()
    return _Markdown(f"**{shown}**" if shown else "")


def _code(text: str) -> _Markdown:
    """Between more backticks than any that it holds; a bar would end a table's cell even there."""
    shown = printable(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if "`" in shown else ""
    return _Markdown(f"{fence}{space}{shown}{space}{fence}" if shown.strip() else "")


def to_markdown(report: DriftReport) -> str:
    """A heading with the verdict, the table of candidates, the reasons, data and budget."""
    return str(_page(report))


def _page(report: DriftReport) -> _Page:
    page = _Page()
    page.heading(2, f"{SIGNS[report.verdict]} Drift report: {report.verdict}")
    page.paragraph(headline(report))
    page.table(verdict_table(report))
    for names, lines in findings(report):
        page.item(_bold(names))
        for label, text in lines:
            page.item(f"{label}: ", _code(text) if _is_command(text) else text, level=1)
    for candidate in report.candidates:
        told = [f"{label} {text}" for label, text in scope(report, candidate)]
        told += asked_texts(report, candidate)
        told += [f"note: {note}" for note in alike_once(candidate.notes)]
        for text in told:
            page.item(_bold(candidate.name), f" {text}")
    for note in data_notes(report):
        page.item(f"note: {note}")
    page.table(latency_table(report))
    page.paragraph(_small_print(report))
    return page


def _is_command(text: str) -> bool:
    return text.startswith("tfmp-convert ")


def to_card(report: DriftReport) -> str:
    """A section of a model card for Hugging Face: the report, and hashes of the files it is on.

    Metrics against labels are also its metadata, `model-index` as the Hub documents it in
    https://huggingface.co/docs/hub/model-cards
    """
    page = _page(report)
    page.heading(3, "Files of this report")
    files = [(file.name, file.sha256) for file in report.candidates]
    named = [(report.reference.name, report.reference.sha256), *files]
    page.table(
        Table(
            ("File", "SHA-256"),
            tuple((name, _code(sum)) for name, sum in named if sum),
            words=("File", "SHA-256"),
        )
    )
    metadata = _model_index(report)
    head = ["---", *metadata, "---", ""] if metadata else []
    return "\n".join([*head, str(page)])


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


def escape(text: str) -> str:
    """The text, escaped: Markdown shows any characters as they are."""
    return _SPECIAL.sub(r"\\\1", printable(text))


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
        f"Data: {report.data.source}, {report.data.samples:,} samples, "
        f"sha256 {report.data.sha256[:12]}. Budget: {', '.join(shown) or 'none'}, "
        f"confidence {budget.confidence:.0%}."
    )
