"""The frame of every command: progress and mistakes on stderr, results on stdout."""

import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfmp.converters.commands.guard import EXIT_BAD_INPUT, report_defect, say, status_of
from tfmp.converters.commands.options import Asked, Shown
from tfmp.converters.shared.errors import InputError
from tfmp.shared.commands import progress_bar
from tfmp.shared.framework_start import start_converting
from tfmp.shared.html_page import printable
from tfmp.shared.progress import Progress
from tfmp.shared.report_files import JsonObject
from tfmp.shared.wording import alike_once

if TYPE_CHECKING:
    from rich.console import Console

    from tfmp.converters.report import Artifact, DriftReport
    from tfmp.converters.shared.tensors import TensorSpec
    from tfmp.converters.tflite.audit import Audit


@contextmanager
def session(shown: Shown) -> Iterator[Progress]:
    """Progress on a terminal's stderr; the user's mistakes as one message and exit status 2, Ctrl-C
    as one line and 130, and whatever else goes wrong as a traceback and 70."""
    start_converting()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # signs that an old terminal lacks, spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        config = _config_path(shown)
        with _hints_hidden(), progress_bar(shown.quiet, "samples") as progress:
            yield progress
        if config is not None:
            _save_config(config)
    except (click.ClickException, click.exceptions.Exit):
        raise
    except ImportError as error:
        if (error.name or "tfmp").startswith("tfmp"):
            sys.exit(report_defect())
        say(
            f"Error: {error.name} cannot be loaded on this machine ({error}). Install it again, "
            "with the libraries that it needs."
        )
        sys.exit(EXIT_BAD_INPUT)
    except (Exception, KeyboardInterrupt) as error:
        if shown.json and isinstance(error, InputError):
            click.echo(json.dumps({"refusal": asdict(error.refusal)}, indent=2))
        sys.exit(status_of(error))


@contextmanager
def _hints_hidden() -> Iterator[None]:
    """Hides hints on how to write models, with lines of Keras's and TensorFlow's own code."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module=r"(tf_)?keras\.")
            yield
    finally:
        logger.setLevel(level)


def _config_path(shown: Shown) -> Path | None:
    """Where --save-config writes once the work is done, checked before it begins."""
    if shown.save_config is None:
        return None
    from tfmp.converters.shared.files import check_output

    path = Path(shown.save_config)
    check_output(path, ".toml", shown.force)
    return path


def _save_config(path: Path) -> None:
    from tfmp.converters.commands.config import given_options, to_toml
    from tfmp.shared.atomic_file import replacing

    context = click.get_current_context()
    text = to_toml(str(context.info_name), given_options(context))
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Keeps the exit status of the work where nobody reads on, as before `head`.

    Raises:
        InputError: the results cannot be written to stdout for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            raise InputError(
                f"stdout cannot be written to ({error.strerror}). The files that were asked for "
                "are complete; their results are not shown."
            ) from error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit:  # Rich's word for a broken pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_answer(
    shown: Shown,
    document: Callable[[], JsonObject],
    brief: Callable[["Console"], None],
    whole: Callable[["Console"], None],
) -> None:
    """Prints an answer in the form that is asked for: one JSON document, its verdict, or all."""
    with readers_may_leave():
        if shown.json:
            click.echo(json.dumps(document(), indent=2, allow_nan=False))
            return
        from rich.console import Console

        print_it = brief if shown.quiet else whole
        print_it(Console(highlight=False, markup=False, emoji=False))


def print_results(
    report: "DriftReport | None", artifacts: Sequence["Artifact"], asked: Asked, shown: Shown
) -> None:
    """The files that were written and the drift report: a table, or one JSON document."""

    def brief(console: "Console") -> None:
        if report is not None:
            from tfmp.converters.report import print_verdict

            print_verdict(report, console)

    def whole(console: "Console") -> None:
        _print_files(artifacts, console, noted=report is None)  # the report has the notes
        if report is None:
            console.print("Not validated: give samples with --data to measure the drift.")
            return
        from tfmp.converters.report import print_report

        print_report(report, console, shown.verbose)
        _print_saved(asked, console)

    print_answer(shown, lambda: _document(report, artifacts), brief, whole)


def print_inspection(audit: "Audit", asked: Asked, shown: Shown) -> None:
    """The values that FP16 cannot hold: a table, or one JSON document."""
    from tfmp.converters.report import print_audit

    def whole(console: "Console") -> None:
        print_audit(audit, console, verbose=shown.verbose)
        _print_saved(asked, console)

    print_answer(
        shown, audit.to_dict, lambda console: print_audit(audit, console, brief=True), whole
    )


def _print_saved(asked: Asked, console: "Console") -> None:
    for path in asked.report:
        console.print(f"report: {printable(path)}", soft_wrap=True)


def _print_files(artifacts: Sequence["Artifact"], console: "Console", noted: bool) -> None:
    from tfmp.converters.report import size_text
    from tfmp.converters.shared.tensors import describe

    for artifact in artifacts:
        size = size_text(artifact.size_bytes)
        lines = [f"{artifact.path}  {artifact.precision}  {size}"]
        signatures = _signatures(artifact)
        for key, (inputs, outputs) in signatures.items():
            of = f" of {key!r}" if len(signatures) > 1 else ""
            lines.append(f"  inputs{of} {describe(inputs, 8)}, outputs {describe(outputs, 8)}")
        if noted or artifact.known.float32:  # why it is no FP16 file
            lines += [f"  {note}" for note in alike_once(artifact.notes)]
        for line in lines:
            console.print(printable(line))


def _document(report: "DriftReport | None", artifacts: Sequence["Artifact"]) -> JsonObject:
    """The drift report itself; after a conversion, with the files that were written."""
    document = report.to_dict() if report else {}
    if artifacts:
        document["artifacts"] = [
            {
                "path": str(artifact.path),
                "format": artifact.format,
                "precision": artifact.precision,
                "size_bytes": artifact.size_bytes,
                "sha256": artifact.sha256,
                "signatures": {
                    key: {"inputs": list(map(str, inputs)), "outputs": list(map(str, outputs))}
                    for key, (inputs, outputs) in _signatures(artifact).items()
                },
                "notes": list(artifact.notes),
                "overflows": list(artifact.known.overflows),
            }
            for artifact in artifacts
        ]
    return document


def _signatures(artifact: "Artifact") -> "Mapping[str, tuple[tuple[TensorSpec, ...], ...]]":
    """The inputs and outputs of each entry point of a file that was written."""
    from tfmp.converters.formats import format_named

    return format_named(artifact.format).signatures(artifact.path)
