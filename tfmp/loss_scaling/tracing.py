"""What code that runs eagerly, in `tf.function` and in `jax.jit` has to say to each of them."""

from collections.abc import Callable
from typing import Any

from keras import backend, ops


def without_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps a user's `tf.function` from rewriting this code: it is written for tracing."""
    if backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def read(variable: Any) -> Any:
    """The variable's value now. Keras's convert_to_tensor returns a TensorFlow variable itself."""
    return ops.stop_gradient(variable)


def branch(predicate: Any, if_true: Any, if_false: Any) -> Any:
    """Like `ops.cond`, but an untraced JAX step picks its branch in Python.

    Outside `jax.jit`, `lax.cond` would compile both branches anew on every step.
    """
    import jax

    if isinstance(predicate, jax.core.Tracer):
        return ops.cond(predicate, if_true, if_false)
    return if_true() if predicate else if_false()
