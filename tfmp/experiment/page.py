"""The experiment as one self-contained HTML file, in the look of all reports, and as Markdown."""

from tfmp.experiment import figures
from tfmp.experiment.arms import BASE
from tfmp.experiment.differences import CONFIDENCE
from tfmp.experiment.report import ExperimentReport
from tfmp.shared.html_page import page_environment


def headline(report: ExperimentReport) -> str:
    """The conclusion in a few words, with a sign."""
    best = report.shipped
    return f"✓ ship {best.arm.name}" if best else "? nothing to ship yet"


def legend(report: ExperimentReport) -> str:
    """A paragraph that explains the columns of the table."""
    margin = report.number(report.task["margin"])
    return (
        "All numbers are means or medians over seeds. “difference” is against "
        f"{BASE} with the same seed: the same initial weights and the same batches in the same "
        f"order. “as good” means that, with {CONFIDENCE:.0%} confidence, the true mean difference "
        f"is not worse than {margin}, the margin that was declared before the run; “better” and "
        "“worse”, that it is better or worse by more than the margin; “open”, that the seeds prove "
        "neither. An arm that fails with a seed counts as worse. “step” is the time of a training "
        f"step as a multiple of {BASE}'s; “skipped”, the steps that loss scaling left out because "
        "gradients were not finite; “vanish”, the share of gradients that FP16 rounds to zero (for "
        f"{BASE}: would round, without loss scaling); “memory”, its rise in training. “size” and "
        "“latency” are of a file and of one call of it for one sample; “drift” is its relative L2 "
        "error against the float32 model that it was made from, and “verdict” whether it passed "
        "its own comparison with that model."
    )


def to_html(report: ExperimentReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    from markupsafe import Markup

    return (
        page_environment("tfmp.experiment")
        .get_template("experiment.html.j2")
        .render(
            report=report,
            headline=headline(report),
            legend=legend(report),
            cells=report.cells(),
            titles={result.arm.name: result.arm.title for result in report.results},
            losses=Markup(figures.loss_curves(report)),
            sizes=Markup(figures.size_and_metric(report)),
            metric_bars=figures.metric_bars(report),
            memory_bars=figures.memory_bars(report),
            memory_source=next((run.memory_source for run in report.runs if run.memory_source), ""),
            drift_bars=figures.drift_bars(report),
            reasons={result.arm.name: report.why(result) for result in report.losing},
            remarks=report.remarks,
        )
        + "\n"
    )


def to_markdown(report: ExperimentReport) -> str:
    """The table, the conclusion, and the reasons of files that did not pass."""
    heading, *rows = report.cells()
    task = report.task
    lines = [f"# Precision experiment: {task['name']}", "", report.conclusion, ""]
    lines += ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)]
    lines += ["", legend(report), ""]
    lines += [f"- {name}: {'; '.join(texts)}" for name, texts in report.remarks.items()]
    lines += [f"- {note}" for note in report.notes]
    lines += ["", f"{report.seeds} seeds, {task['epochs']} epochs, {task['device']}."]
    return "\n".join(lines)
