"""The classes and functions that a model needs, from the user's modules and from Keras's own."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from tfmp.converters.shared.errors import InputError

# Classes and functions by the names that a Keras file uses for them.
CustomObjects: TypeAlias = dict[str, Any]

# Operations of Keras 3 that call a function, which a file would name.
_CALLING = "AssociativeScan Cond ForiLoop Map Operation Scan Switch VectorizedMap WhileLoop".split()


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
                f"--custom-objects {name}: cannot be imported ({type(error).__name__}: {error})",
                "Name it as `import` would, from a folder on PYTHONPATH or the working directory",
            ) from error
        found |= {key: value for key, value in vars(module).items() if key[0] != "_"}
    return found


def operations() -> CustomObjects:
    """Keras 3's operations by their names, which its own HDF5 files hold and it does not find.

    Masks and operators are operations. Where a layer has the name, too, the words of the
    architecture tell which of both it is: every layer says whether it is trainable.
    """
    import keras
    from keras.src.ops import core, image, linalg, math, nn, numpy

    found: CustomObjects = {}
    for module in (core, image, linalg, math, nn, numpy):
        for name, value in vars(module).items():
            kind = isinstance(value, type) and issubclass(value, keras.Operation)
            if kind and name not in _CALLING:
                layer = getattr(keras.layers, name, None)
                found[name] = value if layer is None else _layer_or_operation(layer, value)
    return found


def _layer_or_operation(layer: Any, operation: Any) -> type:
    class Either:
        @classmethod
        def from_config(cls, config: dict[str, Any]) -> object:
            return (layer if "trainable" in config else operation).from_config(config)

    return Either
