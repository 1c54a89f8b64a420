"""All built-in tasks of `tfmp compare` in every precision: docs/experiments.md.

    python benchmarks/experiments.py [--seeds 3] [--folder FOLDER] [TASK ...]

Trains every task in every arm; about 15 minutes on two cores. Results are kept in the folder, so
that an interrupted run goes on. Writes docs/experiments.md, which says what the figures ran on.
"""

import platform
import sys

from pages import table, write_page
from scaffold import DOCS, parser

from tfmp.experiment import TASKS, compare
from tfmp.experiment.report import ArmResult, ExperimentReport

# Arms that the summary compares with float32.
ARMS = ("mixed_float16", "float16", "float16_scaled")
# Columns of the table of all arms: those of a report, with its task and its metric's name.
ROW = (
    "task, measure, arm, metric, difference, finding, step, skipped, vanish, memory, size, "
    "latency, drift, verdict"
).split(", ")


def page(reports: list[ExperimentReport], seeds: int) -> str:
    """The page in Markdown.

    Args:
        reports: of the tasks in all arms.
        seeds: of every arm.
    """
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
    ]
    shipped = ["task, metric, ship, mixed_float16, float16, float16 with loss scaling".split(", ")]
    for report in reports:
        by_name = {result.arm.name: result for result in report.results}
        best = report.shipped
        row = [report.task["name"], report.task["metric"], best.arm.name if best else "nothing yet"]
        row += [_short(report, by_name[name]) for name in ARMS]
        shipped.append(row)
    lines += [table(shipped, words=len(shipped[0])), ""]
    lines += [table([ROW, *(row for report in reports for row in _rows(report))], words=len(ROW))]
    return "\n".join(lines) + "\n"


def _rows(report: ExperimentReport) -> list[list[str]]:
    return [[report.task["name"], report.task["metric"], *cells] for cells in report.table().rows]


def _short(report: ExperimentReport, result: ArmResult) -> str:
    if result.failed:
        return f"not finite with {result.failed} of {len(result.runs)} seeds"
    return f"{report.number(result.metric)} ({result.finding})"


def main() -> None:
    """Runs the tasks and writes the page."""
    given = parser(__doc__)
    given.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK")
    given.add_argument("--seeds", type=int, default=3)
    given.add_argument("--folder", default="out/experiments")
    options = given.parse_args()

    def run(name: str) -> ExperimentReport:
        print(f"== {name}", flush=True)
        report = compare(
            name,
            seeds=options.seeds,
            folder=options.folder,
            progress=lambda text: print(f"{text} ...", file=sys.stderr, flush=True),
        )
        print(report, flush=True)
        return report

    reports = [run(name) for name in options.tasks]
    if set(options.tasks) == set(TASKS):
        write_page(DOCS / "experiments.md", page(reports, options.seeds))


if __name__ == "__main__":
    main()
