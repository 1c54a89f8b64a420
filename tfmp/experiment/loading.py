"""Tasks by name: those that come with tfmp, and those in files and modules of users."""

from dataclasses import replace
from importlib import import_module

from tfmp.experiment.tasks import Task
from tfmp.shared.commands import named_function, names_function
from tfmp.shared.wording import first_line, listed

# Tasks that come with tfmp: a line for each, and the function in `experiment/builtin/` that makes
# the task.
TASKS = {
    "digits": "a small convolutional network on scikit-learn's 1,797 scanned digits",
    "text": "a character transformer on the text of Python's own manual",
    "tabular": "a regression on scikit-learn's 442 diabetes patients, targets in their own units",
    "segmentation": "a small U-Net on drawn discs and squares",
    "detection": "a network that finds the box of a drawn shape",
}

# Where the functions of `TASKS` are.
_BUILTIN = "tfmp.experiment.builtin"


def check_name(text: str) -> None:
    """Accepts a text that may name a task; nothing is imported.

    Raises:
        ValueError: it is no name of `TASKS` and has no function.
    """
    if text not in TASKS and not names_function(text):
        raise ValueError(
            f"TASK expects one of {listed(list(TASKS), len(TASKS))}, FILE.py:function or "
            f"package.module:function; received {text!r}. `tfmp compare --init FILE.py` writes an "
            "example."
        )


def load_task(named: str | Task) -> Task:
    """A task by its name.

    Args:
        named: a `Task`, a name of `TASKS`, FILE.py:function or package.module:function; the
            function takes no arguments and returns a `Task`.

    Raises:
        ValueError: there is no such task, or its function does not return one.
    """
    if isinstance(named, Task):
        return named
    check_name(named)
    if named in TASKS:
        function = getattr(import_module(_BUILTIN), named)
    else:
        function = named_function("TASK", named)
    try:
        made = function()
    except ImportError as error:
        raise ValueError(
            f"Task {named!r} needs a package that is not installed ({first_line(error)}): "
            "pip install 'tfmp[experiment]' installs those of the built-in tasks."
        ) from error
    except Exception as error:
        raise ValueError(
            f"Task {named!r} cannot be made: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not isinstance(made, Task):
        raise ValueError(
            f"Task {named!r} has to return a tfmp.Task; it returned {type(made).__name__}. "
            "`tfmp compare --init FILE.py` writes an example."
        )
    return replace(made, about=made.about or (function.__doc__ or "").partition("\n")[0])
