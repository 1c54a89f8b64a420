"""`tfmp compare`."""

import os
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tfmp.commands import options as common
from tfmp.experiment import ARMS, TASKS, TEMPLATE
from tfmp.shared.atomic_file import replacing
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.experiment import ExperimentReport


def _tasks() -> str:
    width = max(map(len, TASKS))
    return "\n".join(f"    {name:{width}}  {text}" for name, text in TASKS.items())


@click.command(
    "compare",
    cls=common.Command,
    help=cleandoc(f"""Train TASK in several precisions, make FP16 files, and say which to ship.

    All arms begin with the same weights and see the same batches, seed by seed; each runs apart
    from the others. Results are kept in a folder: an interrupted experiment goes on when the same
    command is given again.

    TASK is FILE.py:function or package.module:function, which returns a tfmp.Task; or one of:

    \b
{_tasks()}

    Exit status: 0 if every run was done, 2 if the task or an option cannot be used.
    """),
)
@click.argument("task", metavar="TASK", required=False)
@click.option(
    "--arms",
    metavar="NAME,NAME",
    help=f"Arms to run, separated by commas. All: {', '.join(ARMS)}. Default: the trainings, and "
    "FP16 files of float32 and mixed_float16.",
)
@common.count_option("--seeds", "Number of seeds.", default=3)
@click.option(
    "--folder",
    default="tfmp-compare",
    show_default=True,
    help="Folder for results and models.",
)
@click.option("--init", metavar="FILE", help="Write an example of a task file, and end.")
@common.reporting((".html", ".json", ".md"), "runs", with_keras=False)
def command(
    task: str | None, arms: str | None, init: str | None, progress: Progress, **options: Any
) -> "ExperimentReport":
    """Train a task in several precisions, or write an example of a task."""
    if init is not None:
        _write_example(Path(init))
    if task is None:
        raise ValueError(
            f"expected a TASK: one of {', '.join(TASKS)}, or FILE.py:function. "
            "`tfmp compare --init FILE.py` writes an example."
        )
    from tfmp.experiment import DEFAULT_ARMS, compare

    chosen = DEFAULT_ARMS if arms is None else [name.strip() for name in arms.split(",")]
    return compare(
        task,
        chosen,
        **options,  # named like its arguments
        progress=progress,
        count=progress.count,
    )


def _write_example(path: Path) -> NoReturn:
    context = click.get_current_context()
    if os.path.lexists(path) and not context.params["force"]:
        raise ValueError(f"{str(path)!r} exists. Pass --force to overwrite it.")
    if path.suffix != ".py":
        raise ValueError(f"--init expects a file with the suffix .py, received {str(path)!r}.")
    try:
        with replacing(path) as new:
            new.write_text(TEMPLATE.replace("THIS_FILE.py", path.name), encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"--init cannot write {str(path)!r}: {error.strerror}. Choose another folder."
        ) from None
    click.echo(f"{path} is an example of a task. Run it with: tfmp compare {path}:task")
    context.exit()
