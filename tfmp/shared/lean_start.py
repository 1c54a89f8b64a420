"""TensorFlow and Keras imported for one command: quietly, and without what it does not need.

Keras and TensorFlow import scikit-learn, matplotlib, pandas, PyTorch and JAX where they are
installed, to offer wrappers for them: half of the time that `import tensorflow, keras` takes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tfmp.shared.quiet_stderr import held_back

# Wrapped by Keras, and needed for nothing that this project does itself.
WRAPPED = ("sklearn", "matplotlib")
# Read by Keras's `fit` as data, and of use to no process that trains nothing.
DATA = ("pandas", "torch", "jax")


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """Packages that are not loaded yet cannot be imported inside the block, and can behind it."""
    hidden = [name for name in packages if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # the import system's word for "none"
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras for a process that trains nothing."""
    with held_back(), without(*WRAPPED, *DATA):
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
