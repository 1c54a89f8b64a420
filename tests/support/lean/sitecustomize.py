"""Keras and TensorFlow start without the packages that they only offer wrappers for.

`conftest.py` has all processes that tests start run this: such a start then takes half the time.
Code that imports these packages itself, before or later, finds them.
"""

import os
import sys

_WRAPPED = {"sklearn", "matplotlib", "pandas", "jax"} - {os.environ.get("KERAS_BACKEND")}


class _Hidden:
    """Finds none of them while a framework is being imported."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """See `importlib.abc.MetaPathFinder`."""
        # PyTorch asks whether pandas is there, and takes no error for an answer.
        starts = any(map(_begins, ("keras", "tensorflow"))) and not _begins("torch")
        if name in _WRAPPED and starts:
            raise ModuleNotFoundError(f"{name} is not needed by a framework here", name=name)


def _begins(name: str) -> bool:
    """Whether a package is being imported."""
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


sys.meta_path.insert(0, _Hidden)
