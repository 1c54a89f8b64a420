"""The custom classes and functions that a model needs, from the modules that define them."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from tfmp.converters.shared.errors import InputError

# Classes and functions by the names that a Keras file uses for them.
CustomObjects: TypeAlias = dict[str, Any]


def objects_in(modules: Sequence[str]) -> CustomObjects:
    """Everything public that modules define, by name.

    Args:
        modules: names for `import`, found on PYTHONPATH or in the working directory.

    Raises:
        InputError: one of them cannot be imported.
    """
    found: CustomObjects = {}
    if modules:
        sys.path.insert(0, "")  # a module beside the model, as with `python -m`
    for name in modules:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a user's module may raise anything
            raise InputError(
                f"--custom-objects {name}: cannot be imported ({type(error).__name__}: {error}). "
                "Name it as `import` would, from a folder on PYTHONPATH or the working directory."
            ) from error
        found |= {key: value for key, value in vars(module).items() if key[0] != "_"}
    return found
