"""Reports as one HTML file that needs no other file."""

from collections.abc import Sequence

from tfmp.converters.report.contents import sections
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.sections import VERDICTS, Section
from tfmp.converters.report.summary import headline
from tfmp.shared.html_page import SIGNS, framed, page_environment


def to_html(report: DriftReport) -> str:
    """The report as a page with inline style and pictures, without scripts or other files."""
    name = report.reference.name
    title = f"{report.verdict}: drift of {name}"
    return page(title, f"Drift of {name}", headline(report), sections(report), report.verdict)


def to_cell(report: DriftReport) -> str:
    """The page in the output of a notebook's cell."""
    text = f"{SIGNS[report.verdict]} {report.verdict}: {headline(report)}"
    return framed(text, to_html(report))


def page(
    title: str, heading: str, headline: str, parts: Sequence[Section], verdict: str = ""
) -> str:
    """Sections as a page.

    Args:
        title: of the window.
        heading: of the page.
        headline: the conclusion.
        parts: the sections; the first belongs to the conclusion.
        verdict: PASS, FAIL or INCONCLUSIVE; "" for a page without a verdict.
    """
    environment = page_environment("tfmp.converters.report")
    template = environment.get_template("report.html.j2")
    return (
        template.render(
            title=title,
            heading=heading,
            headline=headline,
            sections=parts,
            verdict=verdict,
            verdicts=VERDICTS,
        )
        + "\n"
    )
