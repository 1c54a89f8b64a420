"""How frameworks are loaded: without a word, and for one command without unneeded packages.

Keras and TensorFlow import scikit-learn, matplotlib, pandas, PyTorch and JAX where they are
installed, to offer wrappers for them: half of the time that `import tensorflow, keras` takes.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# Wrapped by Keras, and needed for nothing that this project does itself.
WRAPPED = ("sklearn", "matplotlib")
# Read by Keras's `fit` as data, and of use to no process that trains nothing.
DATA = ("pandas", "torch", "jax")


@contextmanager
def held_back() -> Iterator[None]:
    """Keeps the text that this block writes to stderr, and shows it only if the block raises.

    TensorFlow greets with lines about oneDNN and CUDA before it reads TF_CPP_MIN_LOG_LEVEL.
    Ctrl-C is no failure: nothing is shown then either.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


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


def start_converting() -> None:
    """Sets the environment of a process that converts, before it imports a framework.

    TensorFlow traces, whatever backend Keras is set to; and it uses oneDNN on every processor, as
    it has more kernels then: of dilated transposed convolutions, and with channels first.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" not in sys.modules:  # else it has decided, and other processes follow it
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def tensorflow_uses_onednn() -> bool:
    """Whether TensorFlow computes with oneDNN on the CPU.

    By default it does on Linux, on processors with instructions for neural networks such as
    AVX512_VNNI (tensorflow/core/util/util.cc); TF_ENABLE_ONEDNN_OPTS decides otherwise.
    """
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())
