"""Keras and TensorFlow start without the packages that they only offer wrappers for.

`conftest.py` has all processes that tests start run this: such a start then takes half the time.
Code that imports these packages itself, before or later, finds them.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

_BACKEND = os.environ.get("KERAS_BACKEND")
# PyTorch asks which of them are there, and takes no error for an answer.
_WRAPPED = {"sklearn", "matplotlib", "pandas", "jax"} - {_BACKEND} if _BACKEND != "torch" else set()


class _Hidden:
    """Finds none of them while a framework is being imported."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        frameworks = (sys.modules.get(each) for each in ("keras", "tensorflow"))
        specs = (getattr(each, "__spec__", None) for each in frameworks)
        if name in _WRAPPED and any(getattr(each, "_initializing", False) for each in specs):
            return ModuleSpec(name, cls)  # PyTorch asks for specs of packages without importing
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """See `importlib.abc.Loader`."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
        name = module.__name__
        raise ModuleNotFoundError(f"{name} is not needed by a framework here", name=name)


sys.meta_path.insert(0, _Hidden)
