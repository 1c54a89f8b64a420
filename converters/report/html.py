"""The report as one HTML file that needs no other file."""

from dataclasses import fields
from functools import cache

from jinja2 import Environment

from tfmp.converters.drift import DriftBudget
from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report import figures, layers, summary
from tfmp.converters.report.model import DriftReport
from tfmp.shared.html_page import framed, page_environment
from tfmp.shared.wording import alike_once


def to_html(report: DriftReport) -> str:
    """The report as a page with inline style and pictures, without scripts or other files."""
    template = template_environment().get_template("report.html.j2")
    return template.render(report=report, labelled=any(c.labels for c in report.candidates)) + "\n"


def to_cell(report: DriftReport) -> str:
    """The page in the output of a notebook's cell."""
    sign = summary.SIGNS[report.verdict]
    return framed(f"{sign} {report.verdict}: {summary.headline(report)}", to_html(report))


@cache
def template_environment() -> Environment:
    """Templates of the package, which escape every value."""
    environment = page_environment("tfmp.converters.report")
    environment.globals.update(
        Verdict=Verdict,
        signs=summary.SIGNS,
        headings=summary.HEADINGS,
        headline=summary.headline,
        data_notes=summary.data_notes,
        alike_once=alike_once,
        row_of=summary.row_of,
        runner_text=summary.runner_text,
        fp16_text=summary.fp16_text,
        stages=summary.STAGES,
        culprit_text=summary.culprit_text,
        latency_cells=summary.latency_cells,
        meaning_texts=summary.meaning_texts,
        scope_texts=summary.scope_texts,
        value_text=summary.value_text,
        statements_text=summary.statements_text,
        limits=[item.name for item in fields(DriftBudget) if item.name != "overrides"],
        layer_figure=layers,
        figures=figures,
    )
    environment.filters.update(
        number=summary.number, percent=summary.percent, size=summary.size_text
    )
    return environment
