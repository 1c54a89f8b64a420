"""`tfmp-convert`: the command line of the converters.

Only click is imported here, so that `--help` answers at once; each command imports what it runs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfmp.converters.commands import options
from tfmp.converters.commands.config import with_own_options
from tfmp.converters.commands.guard import GuardedGroup
from tfmp.converters.commands.inputs import (
    check_inputs_stay,
    check_reports,
    comparison_plan,
    model_request,
)
from tfmp.converters.commands.options import Asked, Intake, Limits, Shown, Written
from tfmp.converters.commands.session import print_inspection, print_results, session
from tfmp.converters.formats import Format, all_formats
from tfmp.shared.wording import joined

if TYPE_CHECKING:
    from tfmp.converters.report import DriftReport

_EPILOG = """\
Exit status: 0 PASS or converted, 1 FAIL (drift over budget), 2 bad usage or input, 3 INCONCLUSIVE
(too little data to certify).
"""


@click.group(
    cls=GuardedGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@click.version_option(package_name="tfmp")
def main() -> None:
    """Convert a Keras model to static FP16 ONNX or TFLite, and measure the drift.

    \b
    tfmp-convert inspect model.keras --data test.npz
    tfmp-convert all model.keras -o out/ --data test.npz --report out/drift.html
    tfmp-convert validate model.keras out/model.onnx --data test.npz
    """


def _add_format(format: Format) -> None:
    """The command that converts to one format."""

    @main.command(
        format.name,
        cls=options.Command,
        short_help=f"Convert MODEL to {format.title}.",
        help=f"Convert MODEL ({format.takes}) to {format.title}; with --data, validate the result.",
    )
    @options.converting(
        [format],
        metavar="FILE",
        written=f"File for the result, or its folder [default: MODEL{format.suffix}].",
    )
    def command(model: str, written: Written, intake: Intake, asked: Asked, shown: Shown) -> None:
        _convert(model, {format.name: written.output}, written, intake, asked, shown)


for _format in all_formats():
    _add_format(_format)

_TITLES = joined([format.title for format in all_formats()])


@main.command(
    "all",
    cls=options.Command,
    short_help=f"Convert MODEL to {_TITLES}.",
    help=f"Convert MODEL to {_TITLES}; with --data, validate both in one run.",
)
@options.converting(all_formats(), metavar="DIR", written="Folder for the results.", required=True)
def all_command(model: str, written: Written, intake: Intake, asked: Asked, shown: Shown) -> None:
    """Convert MODEL to every format, and compare the files with it in one run."""
    stem = Path(model).stem
    outputs: dict[str, str | None] = {
        format.name: str(Path(str(written.output)) / f"{stem}{format.suffix}")
        for format in all_formats()
    }
    _convert(model, outputs, written, intake, asked, shown)


@main.command("validate", cls=options.Command, short_help="Measure the drift of converted files.")
@click.argument("reference", metavar="REFERENCE", type=options.PATH)
@click.argument("candidates", metavar="CANDIDATE...", nargs=-1, required=True, type=options.PATH)
@options.judged_for
@options.takes(intake=Intake, asked=Asked, shown=Shown)
def validate_command(
    reference: str,
    candidates: tuple[str, ...],
    target: tuple[str, ...],
    intake: Intake,
    asked: Asked,
    shown: Shown,
) -> None:
    """Measure how far CANDIDATE files are from the float32 REFERENCE model.

    Without --data, the samples are made up from the model's signature. Such samples can show that a
    file is broken, but not that it is sound: the verdict is INCONCLUSIVE at best.
    """
    with session(shown) as progress:
        plan = comparison_plan(asked, shown, target)
        request = model_request(reference, intake)
        check_inputs_stay(asked.report, request.files)
        from tfmp.converters.validation import validate_files

        found = validate_files(request, list(candidates), asked.data, asked.labels, plan, progress)
        report = _saved(with_own_options(found, click.get_current_context()), asked)
    print_results(report, [], asked, shown)
    sys.exit(report.verdict.exit_status)


@main.command("report", cls=options.Command, short_help="Judge and render a saved report again.")
@click.argument("documents", metavar="DRIFT.json...", nargs=-1, required=True, type=options.PATH)
@options.takes(asked=options.REJUDGED, shown=Shown)
def report_command(documents: tuple[str, ...], asked: Asked, shown: Shown) -> None:
    """Judge and render a saved report again, without running anything.

    Several documents are merged as shards: the same models on different samples. The budget is the
    one that they were made with, except for the limits that --budget changes.
    """
    with session(shown):
        from tfmp.converters.drift import DriftBudget
        from tfmp.converters.report import load, merge_reports

        check_reports(asked, shown)
        check_inputs_stay(asked.report, documents)
        DriftBudget.parse(asked.budget)
        report = merge_reports([load(path) for path in documents])
        if asked.budget:
            report = report.judged_by(DriftBudget.parse(asked.budget, report.budget))
        _saved(report, asked)
    print_results(report, [], asked, shown)
    sys.exit(report.verdict.exit_status)


@main.command("plan", cls=options.Command, short_help="Tell how many samples a verdict needs.")
@options.takes(limits=Limits, shown=Shown)
def plan_command(limits: Limits, shown: Shown) -> None:
    """Tell how many samples a verdict needs, before there are any.

    A PASS has to be proven: with few samples, even a file that changes no answer is INCONCLUSIVE.
    The table has the samples that a verdict needs, by the number of changes among them.
    """
    with session(shown):
        from tfmp.converters.commands.plan import outlooks, print_outlooks

        found = outlooks(limits)
    print_outlooks(found, limits.samples, shown)


@main.command(
    "inspect", cls=options.Command, short_help="Find the values of MODEL that overflow in FP16."
)
@click.argument("model", metavar="MODEL", type=options.PATH)
@options.takes(intake=Intake, asked=options.AUDITED, shown=Shown)
def inspect_command(model: str, intake: Intake, asked: Asked, shown: Shown) -> None:
    """Find the values of MODEL that would overflow or vanish in FP16, before it is converted.

    Constants are always checked. With --data, every activation and the sums inside operators are
    checked, too, each with its distance from the limits of FP16 in powers of two. The exit status
    is 1 if a value would overflow or vanish, 0 if all fit on these samples, and 3 without samples.
    """
    with session(shown) as progress:
        from tfmp.converters.inspection import inspect_model
        from tfmp.converters.report import AUDIT_SUFFIXES, save_audit

        check_reports(asked, shown, AUDIT_SUFFIXES)
        request = model_request(model, intake)
        check_inputs_stay(asked.report, request.files)
        audit = inspect_model(request, asked.data, progress)
        for path in asked.report:
            save_audit(audit, path)
    print_inspection(audit, asked, shown)
    sys.exit(audit.exit_status)


def _convert(
    model: str,
    outputs: dict[str, str | None],
    written: Written,
    intake: Intake,
    asked: Asked,
    shown: Shown,
) -> None:
    """Converts to every format, validates all files at once, and prints."""
    with session(shown) as progress:
        plan = comparison_plan(asked, shown, written.options.get("target", ()))
        request = model_request(model, intake)
        check_inputs_stay(asked.report, request.files)
        from tfmp.converters.conversion import check_nothing_asked, convert_files, targets_of

        if asked.data is None:
            check_nothing_asked(
                plan, labels=asked.labels, budget=asked.budget or None, report=asked.report or None
            )
        targets = targets_of(
            request,
            outputs,
            written.precision,
            written.options,
            asked.data is not None,
            shown.force,
        )
        artifacts, report = convert_files(
            request, targets, asked.data, asked.labels, plan, progress
        )
        if report is not None:
            report = _saved(with_own_options(report, click.get_current_context()), asked)
    print_results(report, artifacts, asked, shown)
    sys.exit(report.verdict.exit_status if report else 0)


def _saved(report: "DriftReport", asked: Asked) -> "DriftReport":
    for path in asked.report:
        report.save(path)
    return report
