"""Helpers for code that runs eagerly, in `tf.function` and in `jax.jit`."""

from collections.abc import Callable
from typing import TypeVar

import keras
from keras import backend, ops

from tfmp.shared.backend import Tensor

Function = TypeVar("Function", bound=Callable[..., object])
Result = TypeVar("Result")


def without_autograph(function: Function) -> Function:
    """Keeps a user's `tf.function` from rewriting this code: it is written for tracing."""
    if backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def rarely_run(function: Function) -> Function:
    """Makes a function cheap where it is not called: in the branch of a condition, mostly untaken.

    TensorFlow visits every operation of an untaken branch on every step. A function that is not
    inlined is one operation.
    """
    if backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    if tf.executing_eagerly():
        return function
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})


def read(variable: keras.Variable) -> Tensor:
    """The variable's value now; Keras's convert_to_tensor would return a TensorFlow variable."""
    return ops.stop_gradient(variable)


def replica_index() -> int:
    """A number of the replica whose code runs; 0 without replicas, or where one trace is for all.

    `MirroredStrategy` traces a step once for each replica, and switches between them wherever they
    meet.
    """
    if backend.backend() != "tensorflow":
        return 0
    import tensorflow as tf

    index = getattr(tf.distribute.get_replica_context(), "_replica_id_in_sync_group", 0)
    return index if isinstance(index, int) else 0


def branch(
    predicate: Tensor, if_true: Callable[[], Result], if_false: Callable[[], Result]
) -> Result:
    """Like `ops.cond`, but an untraced JAX step picks its branch in Python.

    Outside `jax.jit`, `lax.cond` would compile both branches anew on every step.
    """
    if backend.backend() == "jax":
        import jax

        if not isinstance(predicate, jax.core.Tracer):
            return if_true() if predicate else if_false()
    return ops.cond(predicate, if_true, if_false)
