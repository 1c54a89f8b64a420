"""Options that several `tfmp` commands have, and the code that handles them."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, TypeVar

import click

from tfmp.commands.session import import_keras
from tfmp.precision import FIXED_POLICIES
from tfmp.shared.commands import GroupedCommand, progress_bar
from tfmp.shared.report_files import check_report_path
from tfmp.shared.reporting import Report

Function = TypeVar("Function", bound=Callable[..., None])

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MOST_BYTES = 2**63
_MOST_DIGITS = 18


class Command(GroupedCommand):
    """A command with its options below the headings of `tfmp`."""

    headings: ClassVar = {
        "Measuring": (
            *("data", "arms", "policies", "batch_size", "batch_sizes", "modes"),
            *("seeds", "rounds", "steps", "keep_float32", "xla"),
        ),
        "Parts": ("layers", "roofline", "largest_batch", "memory_limit"),
        "Against a baseline": ("save", "against", "tolerance"),
        "Reports": ("reports", "force", "as_json", "quiet", "folder", "log_dir", "init"),
    }


model_argument = click.argument("model", metavar="MODEL")
data_option = click.option(
    "--data",
    required=True,
    metavar="FILE",
    help="Training data: an .npz file with 'x' and 'y', or with an array for each model input and "
    "'labels' (of several outputs 'labels.OUTPUT' each), or FILE.py:function, which returns "
    "batches (x, y).",
)


def count_option(
    name: str, help: str, default: int | None = None, least: int = 1
) -> Callable[[Function], Function]:
    """An option that takes a whole number; its default is shown in the help."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


batch_size_option = count_option(
    "--batch-size", "Samples in each batch, if the data is arrays.", default=32
)
policies_option = click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(FIXED_POLICIES),
    default=("float32", "mixed_float16"),
    help="Policy to measure; may be given several times. Default: float32 and mixed_float16.",
)
keep_float32_option = click.option(
    "--keep-float32",
    multiple=True,
    metavar="NAME",
    help="Layers to keep in float32: a name, a path or a regular expression. May be given several "
    "times.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print no progress on stderr.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."
)


def reporting(
    suffixes: Sequence[str] = (),
    parts: str = "",
    status: Callable[[Any], int] = lambda report: 0,
    with_keras: bool = True,
) -> Callable[[Callable[..., Report]], Callable[..., None]]:
    """Makes a command of a function that takes a `Progress` and options, and gives a report.

    The command writes the report to files, prints it, and turns the user's mistakes into one
    message and exit status 2.

    Args:
        suffixes: those that a file of the report may have; without any it has no --report.
        parts: of the work that are counted, for the progress bar.
        status: the exit status that follows from a report.
        with_keras: whether Keras is imported before the work, and before its progress is shown.
    """

    def decorate(measure: Callable[..., Report]) -> Callable[..., None]:
        @wraps(measure)
        def command(
            quiet: bool,
            as_json: bool,
            reports: tuple[str, ...] = (),
            force: bool = False,
            **options: Any,
        ) -> None:
            with mistakes_end_the_command():
                check_reports(reports, suffixes, force)
                if with_keras:
                    import_keras()
                with progress_bar(quiet, parts) as progress:
                    report = measure(progress=progress, **options)
                for path in reports:
                    report.save(path)
            click.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))
            click.get_current_context().exit(status(report))

        described = json_option(quiet_option(command))
        return _report_options(suffixes)(described) if suffixes else described

    return decorate


def _report_options(suffixes: Sequence[str]) -> Callable[[Function], Function]:
    kinds = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
    file = click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FILE",
        help=f"Write the report to a file too: {kinds}. May be given several times.",
    )
    force = click.option("--force", is_flag=True, help="Overwrite report files that exist.")
    return lambda command: file(force(command))


def parse_bytes(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Reads 2GiB, 512 MB (taken as MiB) or a plain number of bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not found or not 0 < float(found[1]) < _MOST_BYTES:
        raise click.BadParameter(
            f"expected an amount of memory above 0 such as 2GiB or 512MiB, received {text!r}."
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


def parse_sizes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """Reads whole numbers with commas between them: "8,32,128"."""
    found = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) <= _MOST_DIGITS and int(part) for part in found):
        raise click.BadParameter(
            f"expected whole numbers above 0 with commas between them, such as 8,32,128, received "
            f"{text!r}."
        )
    return tuple(map(int, found))


def memory_limit_option(help: str) -> Callable[[Function], Function]:
    """The option --memory-limit, in bytes."""
    return click.option("--memory-limit", metavar="SIZE", callback=parse_bytes, help=help)


def check_reports(paths: Iterable[str], suffixes: Sequence[str], force: bool) -> None:
    """Refuses reports that could not be written, before minutes of measuring.

    Raises:
        ValueError: a path has another suffix, no folder, or is taken and `force` is not given.
    """
    for path in paths:
        check_report_path(path, suffixes)
        if os.path.lexists(path) and not force:  # a link to nothing is somebody's, too
            raise ValueError(f"{path!r} exists. Pass --force to overwrite it.")


@contextmanager
def mistakes_end_the_command() -> Iterator[None]:
    """Turns a mistake in the user's input into one message and exit status 2."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
