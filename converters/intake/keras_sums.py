"""Sums of Keras operations whose sizes become fixed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfmp.shared.backend import Tensor

_OPERATIONS = "keras.src.backend.tensorflow.numpy"


@contextmanager
def broadcast_sums() -> Iterator[None]:
    """Broadcasts summands inside as NumPy does.

    Keras (3.15) takes a summand with one axis longer than 1 for a bias. In a batch of one sample,
    but not of open size, `x + y[:, :, None]` then adds y along the last axis of a square x.
    """
    numpy: Any = sys.modules.get(_OPERATIONS)
    if numpy is None:
        yield
        return
    keras_add = numpy.add

    def add(x1: Tensor, x2: Tensor) -> Tensor:
        import tensorflow as tf

        if not (tf.is_tensor(x1) and tf.is_tensor(x2)) or x2.shape.rank in (None, 0, 1):
            return keras_add(x1, x2)
        dtype = numpy.dtypes.result_type(x1.dtype, x2.dtype)
        return tf.add(tf.cast(x1, dtype), tf.cast(x2, dtype))

    numpy.add = add
    try:
        yield
    finally:
        numpy.add = keras_add
