"""Files of users as modules, for functions that are named as FILE.py:function."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tfmp.shared.wording import first_line, shown


def module_of_file(path: Path) -> ModuleType:
    """The module that a file defines, which finds its neighbours as a script would.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another module has its name.
        Exception: the file raised it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) != str(path.resolve()):
        raise ValueError(f"{path.name!r} has the name of a module in use; rename the file.")
    if known is not None:
        return known
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # functions of it can be pickled, and registered with Keras
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def names_function(text: str) -> bool:
    """Whether a text has the form FILE.py:function or package.module:function."""
    module, colon, function = text.rpartition(":")
    return bool(colon and module and function.isidentifier())


def named_function(argument: str, text: str) -> Callable[[], Any]:
    """The function that the value of an argument names; modules in this folder are found, too.

    Raises:
        ValueError: the module cannot be imported, or has no such function.
    """
    if os.getcwd() not in sys.path:  # as `python -m` does
        sys.path.insert(0, os.getcwd())
    place, _, name = text.rpartition(":")
    try:
        module = module_of_file(Path(place)) if place.endswith(".py") else import_module(place)
        found = getattr(module, name)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{argument} {text!r} cannot be imported: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not callable(found):
        raise ValueError(f"{argument} {text!r} has to be a function; it is {shown(found)}.")
    return found
