"""`tfmp colocate`."""

import json
import sys
from typing import Any

import click

# As in tfmp.colocate, which imports Keras; a test holds them equal.
MODES = ("auto", "sequential", "interleaved", "threads", "fused", "processes")

_FORM = "package.module:function, which returns a list of tfmp.Job"


def parse_memory(context: Any, parameter: Any, text: str | None) -> int | None:
    """The bytes of an amount such as 2GiB."""
    from tfmp.commands.profile import parse_bytes

    return parse_bytes(context, parameter, text)


@click.command("colocate")
@click.argument("jobs", metavar="MODULE:FUNCTION")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="How the jobs share the device; auto measures short runs and takes the fastest.",
)
@click.option(
    "--measure-steps",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Least length of the short runs; 0 measures nothing, with a named mode.",
)
@click.option("--measure-only", is_flag=True, help="Recommend a mode; train nothing.")
@click.option(
    "--memory-limit",
    metavar="SIZE",
    callback=parse_memory,
    help="What each process may use, such as 2GiB, in mode processes.",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    jobs: str,
    mode: str,
    measure_steps: int,
    measure_only: bool,
    memory_limit: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train several models on one device, each in its own precision.

    MODULE:FUNCTION returns a list of tfmp.Job. Models are kept by the jobs' own callbacks and
    checkpoints.

    Exit status: 0 all jobs finished, 1 a job ended early, 2 on jobs that cannot be used.
    """
    found = load_jobs(jobs)
    try:
        from tfmp.colocation import colocate

        report = colocate(
            found,
            mode,
            measure_steps=measure_steps,
            train=not measure_only,
            memory_limit=memory_limit,
            progress=None if quiet else show_progress,
        )
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        if isinstance(found, list) and any(getattr(job, "checkpoint", None) for job in found):
            click.echo("Jobs with a checkpoint go on from their last whole epoch.", err=True)
        raise
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))
    sys.exit(1 if report.failed else 0)


def load_jobs(text: str) -> Any:
    """The jobs that a function returns.

    Raises:
        click.UsageError: there is no such function, or it raises.
    """
    module, colon, function = text.rpartition(":")
    if not (colon and module and function.isidentifier()):
        raise click.UsageError(f"MODULE:FUNCTION expects {_FORM}; received {text!r}.")
    from tfmp.commands.inputs import imported

    try:
        return getattr(imported(module), function)()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise click.UsageError(
            f"MODULE:FUNCTION {text!r} cannot be called: {type(error).__name__}: {lines[0]} "
            f"Expected {_FORM}."
        ) from error


def show_progress(name: str, step: int, steps: int) -> None:
    """A line on stderr after each tenth of a job's steps."""
    if step * 10 // steps > (step - 1) * 10 // steps:
        click.echo(f"{name}: {step}/{steps} steps", err=True)
