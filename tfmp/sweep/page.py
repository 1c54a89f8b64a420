"""The sweep as one self-contained HTML file, in the look of all reports."""

from tfmp.shared.html_page import page_environment
from tfmp.sweep import figures
from tfmp.sweep.report import SweepReport


def to_html(report: SweepReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    from markupsafe import Markup

    pictures = [
        (
            where,
            Markup(figures.throughput(report, rows, f"speed{place}")),
            Markup(figures.memory(report, rows, f"memory{place}")),
        )
        for place, (where, rows) in enumerate(report.groups().items())
    ]
    sources = sorted({row.memory.source for row in report.rows if row.memory})
    return (
        page_environment("tfmp.sweep")
        .get_template("sweep.html.j2")
        .render(
            report=report,
            pictures=pictures,
            rows=report.cells(),
            largest=report.largest_cells() if report.largest else [],
            crossovers=[str(each) for each in report.crossovers],
            memory_source=" and ".join(sources),
        )
        + "\n"
    )
