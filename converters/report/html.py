"""The report as one HTML file that needs nothing else."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report import figures, summary
from tfmp.converters.report.model import DriftReport


def to_html(report: DriftReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    template = template_environment().get_template("report.html.j2")
    return template.render(report=report, labelled=any(c.labels for c in report.candidates)) + "\n"


@cache
def template_environment() -> Environment:
    """Templates of the package, which escape every value."""
    environment = Environment(
        loader=PackageLoader("tfmp.converters.report"),
        autoescape=True,  # every name comes from a model or a file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spell_out,
    )
    environment.globals.update(
        Verdict=Verdict,
        signs=summary.SIGNS,
        headings=summary.HEADINGS,
        headline=summary.headline,
        data_notes=summary.data_notes,
        row_of=summary.row_of,
        runner_text=summary.runner_text,
        fp16_text=summary.fp16_text,
        stages=summary.STAGES,
        figures=figures,
    )
    environment.filters.update(
        number=summary.number, percent=summary.percent, size=summary.size_text
    )
    return environment


def _spell_out(value: Any) -> Any:
    """Control characters in names made visible; what is already markup is left alone."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return summary.printable(value)
    return summary.NONE if value is None else value
