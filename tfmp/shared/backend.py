"""The Keras backend: checks of its abilities, and types for its values.

Keras and its backends are imported inside the functions.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

BACKENDS = ("tensorflow", "jax")

# A `tf.Tensor` or a `jax.Array`, eager or traced. The two libraries share no type that a checker
# knows.
Tensor: TypeAlias = Any

# A tensor, or lists, tuples and dicts of tensors, as models take and return them. Before they reach
# the backend, NumPy arrays may stand in their place.
TensorTree: TypeAlias = Any


def check_backend() -> None:
    """Accepts the backends whose training loop this package knows.

    Raises:
        ValueError: Keras runs on another backend.
    """
    from keras import backend

    if backend.backend() not in BACKENDS:
        raise ValueError(
            f"tfmp expects the Keras backend {' or '.join(BACKENDS)}, received "
            f"{backend.backend()!r}. Set the environment variable KERAS_BACKEND=tensorflow before "
            "Keras is imported."
        )


def check_64_bits(name: str) -> None:
    """Accepts backends that compute in float64 when they are asked to.

    JAX makes float32 of float64, without a word, unless it is told not to.

    Args:
        name: name of the code that needs float64, for the error.

    Raises:
        ValueError: the backend is JAX with its 64-bit types switched off.
    """
    from keras import backend

    if backend.backend() != "jax":
        return
    import jax

    if not jax.config.jax_enable_x64:
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
