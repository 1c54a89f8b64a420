"""All built-in tasks of `tfmp compare`, and what loss scaling does to one run: docs/experiments.md.

    python benchmarks/experiments.py [--seeds 3] [--folder FOLDER] [TASK ...]

Trains every task in every arm; about an hour on two cores. Results are kept in the folder, so that
an interrupted run goes on. Writes docs/experiments.md, which says what the figures ran on.
"""

import argparse
import platform
import sys
from pathlib import Path

from tfmp.experiment import TASKS, compare
from tfmp.experiment.report import ArmResult, ExperimentReport

DOCS = Path(__file__).parents[1] / "docs"


def page(reports: list[ExperimentReport], seeds: int) -> str:
    """The page in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in reports[0].environment.items())
    lines = [
        "# Experiments: mixed precision, pure half precision, and static FP16 files",
        "",
        "Each task is trained in every precision from the same initial weights on the same",
        f"batches, with {seeds} seeds, and converted to static FP16. `tfmp compare TASK` does this",
        "for one task, yours too; see [Which precision to ship](compare.md).",
        "",
        f"Written by `python benchmarks/experiments.py`, on {reports[0].task['device']} "
        f"({platform.machine()}), {versions}.",
        "Times and memory of 16-bit types on a processor say nothing of a GPU.",
        "",
        "| task | metric | ship | float16 | float16 with loss scaling |",
        "|---|---|---|---|---|",
    ]
    for report in reports:
        by_name = {result.arm.name: result for result in report.results}
        best = report.shipped
        row = [report.task["name"], report.task["metric"], best.arm.name if best else "nothing yet"]
        row += [_short(report, by_name[name]) for name in ("float16", "float16_scaled")]
        lines.append("| " + " | ".join(row) + " |")
    for report in reports:
        heading, *rows = report.cells()
        lines += ["", f"## {report.task['name']}", "", report.task["about"], ""]
        table = [heading, ["---"] * len(heading), *rows]
        lines += ["| " + " | ".join(row) + " |" for row in table]
        lines += ["", report.conclusion]
    return "\n".join(lines) + "\n"


def _short(report: ExperimentReport, result: ArmResult) -> str:
    if result.failed:
        return f"not finite with {result.failed} of {len(result.runs)} seeds"
    return f"{report.number(result.metric)} ({result.finding})"


def main() -> None:
    """Runs the tasks and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", default="out/experiments")
    options = parser.parse_args()
    reports = []
    for name in options.tasks:
        print(f"== {name}", flush=True)
        report = compare(
            name,
            seeds=options.seeds,
            folder=options.folder,
            progress=lambda text: print(f"{text} ...", file=sys.stderr, flush=True),
        )
        print(report, flush=True)
        reports.append(report)
    if set(options.tasks) == set(TASKS):
        (DOCS / "experiments.md").write_text(page(reports, options.seeds), encoding="utf-8")


if __name__ == "__main__":
    main()
