"""`tfmp-convert`: the command line of the converters.

Only click is imported here, so that `--help` answers at once; each command imports what it runs.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tfmp.converters.commands import options as options_of
from tfmp.converters.commands.inputs import (
    budget_for_data,
    check_paths,
    check_reports,
    comparison,
    format_options,
    open_model_file,
)
from tfmp.converters.commands.session import print_results, readers_may_leave, session

_EPILOG = """\
Exit status: 0 PASS or converted, 1 FAIL (drift over budget), 2 bad usage or input, 3 INCONCLUSIVE
(too little data to certify).
"""

_PATH = options_of.PATH


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@click.version_option(package_name="tfmp")
def main() -> None:
    """Convert a Keras model to static FP16 ONNX or TFLite, and measure what that cost.

    \b
    tfmp-convert inspect model.keras --data test.npz
    tfmp-convert all model.keras -o out/ --data test.npz --report out/drift.html
    tfmp-convert validate model.keras out/model.onnx --data test.npz
    """


@main.command("onnx", short_help="Convert MODEL to ONNX.")
@options_of.converting(
    options_of.onnx_file, metavar="FILE", written="Output file [default: MODEL.onnx]."
)
def onnx_command(model: str, output: str | None, **options: Any) -> None:
    """Convert MODEL (.keras, .h5, SavedModel, .onnx) to ONNX; with --data, validate the result."""
    _convert_and_report(model, {"onnx": output}, options)


@main.command("tflite", short_help="Convert MODEL to TFLite.")
@options_of.converting(
    options_of.tflite_file, metavar="FILE", written="Output file [default: MODEL.tflite]."
)
def tflite_command(model: str, output: str | None, **options: Any) -> None:
    """Convert MODEL (.keras, .h5, SavedModel) to TFLite; with --data, validate the result."""
    _convert_and_report(model, {"tflite": output}, options)


@main.command("all", short_help="Convert MODEL to ONNX and TFLite.")
@options_of.converting(
    options_of.onnx_file,
    options_of.tflite_file,
    metavar="DIR",
    written="Folder for the files.",
    required=True,
)
def all_command(model: str, output: str, **options: Any) -> None:
    """Convert MODEL to ONNX and TFLite; with --data, validate both in one run."""
    folder = Path(output)
    stem = Path(model).stem
    targets: dict[str, str | None] = {to: str(folder / f"{stem}.{to}") for to in ("onnx", "tflite")}
    _convert_and_report(model, targets, options)


@main.command("validate", short_help="Measure the drift of converted files.")
@click.argument("reference", metavar="REFERENCE", type=_PATH)
@click.argument("candidates", metavar="CANDIDATE...", nargs=-1, required=True, type=_PATH)
@options_of.intake
@options_of.validation
@options_of.force
@options_of.output
def validate_command(reference: str, candidates: tuple[str, ...], **options: Any) -> None:
    """Measure how far CANDIDATE files are from the float32 REFERENCE model.

    Without --data the samples are made up from the model's signature: they can show that a file is
    broken, never that it is sound, so the verdict is INCONCLUSIVE at best.
    """
    with session(options) as progress:
        budget = budget_for_data(options, required=False)
        from tfmp.converters.comparison import candidate_files
        from tfmp.converters.intake import check_model_file
        from tfmp.converters.validation import prepare_comparison, validate

        check_model_file(Path(reference))
        suffixes = {path.suffix.lower() for path in candidate_files(list(candidates)).values()}
        asked = comparison(options, progress)
        with prepare_comparison(suffixes, **asked):
            source = open_model_file(reference, options, progress)
            report = validate(
                source, list(candidates), options["data"], options["labels"], budget, **asked
            )
        _save_reports(report, options)
    print_results(report, [], options)
    sys.exit(report.verdict.exit_status)


@main.command("report", short_help="Judge and render a saved report again.")
@click.argument("documents", metavar="DRIFT.json...", nargs=-1, required=True, type=_PATH)
@options_of.rejudging
@options_of.output
def report_command(documents: tuple[str, ...], **options: Any) -> None:
    """Judge and render a saved report again, without running anything.

    Several documents are taken as shards, the same models on different samples, and merged. The
    budget is the one they were made with, but for the limits that --budget changes.
    """
    with session(options):
        from tfmp.converters.drift import DriftBudget
        from tfmp.converters.report import load, merge_reports

        check_reports(options)
        DriftBudget.parse(options["budget"])
        report = merge_reports([load(path) for path in documents])
        report = report.judged_by(DriftBudget.parse(options["budget"], report.budget))
        _save_reports(report, options)
    print_results(report, [], options)
    sys.exit(report.verdict.exit_status)


@main.command("inspect", short_help="Say what of MODEL overflows in FP16.")
@click.argument("model", metavar="MODEL", type=_PATH)
@options_of.intake
@options_of.inspection
@options_of.output
def inspect_command(model: str, **options: Any) -> None:
    """Say what of MODEL would overflow or vanish in FP16, before it is converted.

    Constants always; with --data also every activation and the sums inside operators, with the
    powers of two left to the limits of FP16. The exit status is 1 if something would, 0 if nothing
    would on these samples, and 3 if there were none to tell.
    """
    with session(options) as progress:
        from tfmp.converters.report import (
            check_audit_path,
            nonfinite_notes,
            print_audit,
            save_audit,
        )

        check_paths(options["reports"], lambda path: check_audit_path(path, options["force"]))
        source = open_model_file(model, options, progress)
        from tfmp.converters.drift import DriftBudget
        from tfmp.converters.tflite.audit import audit_model
        from tfmp.converters.validation import prepare_data

        dataset, batches = None, None
        if options["data"] is not None:
            dataset = prepare_data(source, options["data"], None, DriftBudget())
            batches = (batch for batch, _ in dataset.batches())
        result = audit_model(source, batches, progress)
        if dataset is not None and dataset.description.nonfinite:
            blame = "; what is not finite behind it may be the data's doing"
            told = (note + blame for note in nonfinite_notes(dataset.description))
            result = replace(result, unknown=(*told, *result.unknown))
        for path in options["reports"]:
            save_audit(result, path)
    with readers_may_leave():
        if options["as_json"]:
            click.echo(json.dumps(result.to_dict(), indent=2, allow_nan=False))
        elif not options["quiet"]:
            from rich.console import Console

            print_audit(result, Console())
            for path in options["reports"]:
                click.echo(f"report: {path}")
    sys.exit(result.exit_status)


def _convert_and_report(
    model: str, targets: dict[str, str | None], options: dict[str, Any]
) -> None:
    """Converts to every target from one loaded model, validates all at once, and prints."""
    with session(options) as progress:
        budget = budget_for_data(options, required=True)
        choices = {to: format_options(to, options) for to in targets}
        from tfmp.converters.conversion import check_conversion
        from tfmp.converters.validation import prepare_comparison, validate

        paths = {
            to: check_conversion(model, to, output, options["force"])
            for to, output in targets.items()
        }
        asked = comparison(options, progress)
        with prepare_comparison([f".{to}" for to in targets], **asked):
            source, dataset, artifacts = _convert(model, paths, choices, budget, options, progress)
            report = None
            if dataset is not None:
                with _naming(artifacts):
                    report = validate(source, artifacts, dataset, budget=budget, **asked)
                _save_reports(report, options)
    print_results(report, artifacts, options)
    sys.exit(report.verdict.exit_status if report else 0)


@contextmanager
def _naming(artifacts: list[Any]) -> Iterator[None]:
    """Says of a mistake that shows only now, late in the data, what was written before it."""
    from tfmp.converters.shared.errors import InputError

    try:
        yield
    except InputError as error:
        files = " and ".join(str(artifact.path) for artifact in artifacts)
        raise InputError(f"{error} Converted before that, complete and kept: {files}.") from error


def _convert(
    model: str,
    paths: dict[str, Path],
    choices: dict[str, Any],
    budget: Any,
    options: dict[str, Any],
    progress: Any,
) -> tuple[Any, Any, list[Any]]:
    """The open model, the samples if there are any, and the files that were written."""
    from tfmp.converters.conversion import tflite_converter, write_artifact
    from tfmp.converters.validation import prepare_data

    with tflite_converter(paths) as converter:
        source = open_model_file(model, options, progress, several=list(paths) == ["tflite"])
        dataset = None
        if options["data"] is not None:
            dataset = prepare_data(source, options["data"], options["labels"], budget)
        artifacts = [
            write_artifact(
                source,
                path,
                options["precision"],
                choices[to],
                dataset,
                budget,
                progress,
                converter,
            )
            for to, path in paths.items()
        ]
    return source, dataset, artifacts


def _save_reports(report: Any, options: dict[str, Any]) -> None:
    for path in options["reports"]:
        report.save(path)
