"""What Keras's backends do differently: a class for each, chosen once, behind one interface.

Keras and its backends are imported inside the functions. A new backend is one file beside these,
and a line of the table below.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from tfmp.shared.backend.interface import Backend, Tensor, TensorTree

__all__ = [
    "BACKENDS",
    "Backend",
    "Tensor",
    "TensorTree",
    "check_64_bits",
    "current_backend",
    "without_retracing_advice",
]

# By Keras's name: the class, in the module of that name.
_CLASSES = {"tensorflow": "TensorFlow", "jax": "Jax", "torch": "Torch"}
BACKENDS = tuple(_CLASSES)


def current_backend() -> Backend:
    """The backend that Keras runs on.

    Raises:
        ValueError: it is one that this package does not know.
    """
    from keras import backend

    return _made(backend.backend())


@cache
def _made(name: str) -> Backend:
    if name not in _CLASSES:
        raise ValueError(
            f"tfmp expects the Keras backend {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, "
            f"received {name!r}. Set the environment variable KERAS_BACKEND=tensorflow before "
            "Keras is imported."
        )
    made: Backend = getattr(import_module(f"{__name__}.of_{name}"), _CLASSES[name])()
    return made


def check_64_bits(name: str) -> None:
    """Accepts backends that compute in float64 when they are asked to.

    JAX makes float32 of float64, without a word, unless it is told not to.

    Args:
        name: name of the code that needs float64, for the error.

    Raises:
        ValueError: the backend is JAX with its 64-bit types switched off.
    """
    if not current_backend().has_64_bits():
        raise ValueError(
            f"{name} expects JAX's 64-bit types, which are switched off: it would compute in "
            "float32. Set the environment variable JAX_ENABLE_X64=1, or call "
            "jax.config.update('jax_enable_x64', True) first."
        )


@contextmanager
def without_retracing_advice() -> Iterator[None]:
    """Keeps TensorFlow from warning about many different functions with the same name."""
    logger = logging.getLogger("tensorflow")

    def is_other(record: logging.LogRecord) -> bool:
        return "triggered tf.function retracing" not in str(record.msg)

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
