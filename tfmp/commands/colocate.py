"""`tfmp colocate`."""

from typing import TYPE_CHECKING, Any

import click

from tfmp.colocation import MODES
from tfmp.commands import options as common
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.colocation import ColocateReport

_FORM = "FILE.py:function, which returns a list of tfmp.Job"


@click.command("colocate")
@click.argument("jobs", metavar="JOBS")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="How the jobs share the device; auto measures short runs and takes the fastest mode.",
)
@common.count_option(
    "--measure-steps",
    "Least number of steps in the short runs; 0 measures nothing and needs a named mode.",
    default=10,
    least=0,
)
@click.option("--measure-only", is_flag=True, help="Recommend a mode without training.")
@common.memory_limit_option("Memory that each process may use in mode processes, such as 2GiB.")
@common.reporting(parts="steps", status=lambda report: int(bool(report.failed)))
def command(jobs: str, measure_only: bool, progress: Progress, **options: Any) -> "ColocateReport":
    """Train several models on one device, each in its own precision.

    JOBS is FILE.py:function, which returns a list of tfmp.Job. Save the models with callbacks
    of the jobs.

    Exit status: 0 if all jobs finished, 1 if a job ended early, 2 if the jobs cannot be used.
    """
    from tfmp.colocation import colocate
    from tfmp.commands.inputs import call_function, is_function_name

    if not is_function_name(jobs):
        raise ValueError(f"JOBS expects {_FORM}; received {jobs!r}.")
    found = call_function("JOBS", jobs, _FORM)
    try:
        return colocate(
            found,
            train=not measure_only,
            stage=progress,
            count=progress.count,
            **options,  # named like its arguments
        )
    except KeyboardInterrupt:
        if isinstance(found, list) and any(getattr(job, "checkpoint", None) for job in found):
            click.echo("Jobs with a checkpoint go on from their last whole epoch.", err=True)
        raise
