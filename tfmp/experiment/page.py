"""The experiment as one self-contained HTML file, in the look of all reports."""

from tfmp.experiment import figures
from tfmp.experiment.arms import BASE
from tfmp.experiment.differences import CONFIDENCE, Finding
from tfmp.experiment.report import ExperimentReport
from tfmp.shared.html_page import page_environment


def to_html(report: ExperimentReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    from markupsafe import Markup

    return (
        page_environment("tfmp.experiment")
        .get_template("experiment.html.j2")
        .render(
            report=report,
            cells=report.cells(),
            titles={result.arm.name: result.arm.title for result in report.results},
            losses=Markup(figures.loss_curves(report)),
            sizes=Markup(figures.size_and_metric(report)),
            metric_bars=figures.metric_bars(report),
            memory_bars=figures.memory_bars(report),
            drift_bars=figures.drift_bars(report),
            reasons={
                result.arm.name: report.why(result)
                for result in report.results
                if result.finding is Finding.WORSE and not result.arm.file
            },
            remarks=report.remarks,
            base=BASE,
            confidence=CONFIDENCE,
        )
        + "\n"
    )
