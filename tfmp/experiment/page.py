"""The experiment as one self-contained HTML file, in the look of all reports, and as Markdown."""

from tfmp.experiment import figures
from tfmp.experiment.arms import BASE
from tfmp.experiment.differences import CONFIDENCE
from tfmp.experiment.report import ExperimentReport
from tfmp.shared.reporting import Drawing, Picture, Section, Table, page


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
    name = report.task["name"]
    return page(
        f"Precision experiment: {name}",
        f"“{name}” in {len(report.arms)} precisions",
        report.conclusion,
        [*_measured(report), _evidence(report)],
        "PASS" if report.shipped else "INCONCLUSIVE",
        headline(report),
    )


def _measured(report: ExperimentReport) -> list[Section]:
    """The table of all arms, and what was measured of trainings and files."""
    heading, *rows = report.cells()
    metric = report.task["metric"]
    order = "higher" if report.task["sign"] > 0 else "lower"
    source = next((run.memory_source for run in report.runs if run.memory_source), "")
    return [
        Section(
            "Conclusion",
            tables=(
                Table(tuple(heading), tuple(map(tuple, rows)), words=("arm", "finding", "verdict")),
            ),
            quiet=(legend(report),),
        ),
        Section(
            "The arms",
            facts=tuple((result.arm.name, result.arm.title) for result in report.results),
            pictures=(
                Picture(
                    f"{metric}, {order} is better; mean over seeds", figures.metric_bars(report)
                ),
            ),
        ),
        Section(
            "Training",
            lines=tuple(f"{one.arm.name} is worse: {report.why(one)}." for one in report.losing),
            pictures=(
                Picture(f"Rise of memory in training, {source}", figures.memory_bars(report)),
            ),
            drawings=(
                Drawing(
                    "Mean training loss by epoch, with a band from the lowest to the highest seed",
                    figures.loss_curves(report),
                ),
            ),
        ),
        Section(
            "Files",
            lines=tuple(f"{name}: {'; '.join(texts)}" for name, texts in report.remarks.items()),
            pictures=(
                Picture(
                    "Relative L2 error against the float32 original", figures.drift_bars(report)
                ),
            ),
            drawings=(
                Drawing(
                    f"Each kind of file by its size and its {metric}; the line spans the seeds, "
                    "and the time is that of one call",
                    figures.size_and_metric(report),
                ),
            ),
        ),
    ]


def _evidence(report: ExperimentReport) -> Section:
    """The task and its runs; versions last."""
    task = report.task
    facts = {
        "Task": task.get("about", ""),
        "Samples": f"{task['train_samples']:,} to train, {task['test_samples']:,} to test",
        "Model": f"{task['weights']:,} weights, {task['optimizer']}",
        "Runs": f"{len(report.runs)}: {report.seeds} seeds, {task['epochs']} epochs, batches of "
        f"{task['batch_size']}",
        "Device": task["device"],
        "Keras backend": task["backend"],
        **report.environment,
    }
    shown = [(name, value) for name, value in facts.items() if value]
    return Section("Evidence", facts=(*shown, *(("Note", note) for note in report.notes)))


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
