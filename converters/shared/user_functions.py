"""Functions of the user's, named as FILE.py:function or package.module:function."""

import importlib
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from tfmp.converters.shared.errors import InputError
from tfmp.shared.commands import module_of_file
from tfmp.shared.wording import listed

# Functions of a module that a message lists.
_MOST_NAMES = 8


def import_function(what: str, module: str, function: str, folder: str | None = None) -> Any:
    """The function of a module that is installed or lies in a folder.

    Args:
        what: word and text for messages, such as "data 'shop.data:samples'".
        module: name of the module as in an import, or its file.
        function: name in the module.
        folder: a folder where modules are found, too; None for the current one.

    Raises:
        InputError: there is no such module or function, or the module raises an error.
    """
    where = folder or os.getcwd()
    sys.path.insert(0, where)
    try:
        file = Path(where, module) if module.endswith(".py") else None
        loaded = module_of_file(file) if file else importlib.import_module(module)
    except FileNotFoundError as error:
        raise InputError(f"{what}: {error}", "Check the path") from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"{what}: there is no module {error.name!r}",
            "Name it as in an import, or as FILE.py; run from the folder that holds it or install "
            "it",
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's module does
        raised = f"raised {type(error).__name__} when it was imported: {error}{place_of(error)}"
        raise InputError(f"{what}: its module {raised}", "Fix the module") from error
    finally:
        if where in sys.path:
            sys.path.remove(where)
    if not hasattr(loaded, function):
        own = [name for name, value in vars(loaded).items() if _is_function_of(loaded, name, value)]
        known = f"its functions: {listed(sorted(own), _MOST_NAMES)}"
        raise InputError(
            f"{what}: module {module!r} has no {function!r}; "
            f"{known if own else 'it defines no function'}",
            "Name one of these" if own else "Name another module",
        )
    return getattr(loaded, function)


def place_of(error: BaseException) -> str:
    """The user's own line that raised an error; "" if no line of theirs is known."""
    files = __file__, module_of_file.__code__.co_filename, os.path.join(importlib.__file__, "_")
    own = tuple(f"{Path(file).parents[1]}{os.sep}" for file in files)
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((*own, "<")):
            return f" at {frame.filename}, line {frame.lineno}"
    return ""


def _is_function_of(module: ModuleType, name: str, value: object) -> bool:
    """Whether a public name of a module is a function that it defines itself."""
    return inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
