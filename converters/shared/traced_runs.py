"""Runs traced TensorFlow functions, also where TensorFlow's optimizer makes them unable to run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from tfmp.converters.shared.frameworks import TracedFunction
from tfmp.shared.backend import Tensor

# Functions that run only as they were written.
_as_written: "WeakSet[TracedFunction]" = WeakSet()


def run_traced(function: TracedFunction, *tensors: Tensor) -> Sequence[Tensor]:
    """Calls a traced function.

    TensorFlow's optimizer fuses a convolution with what follows. The fused kernel has no groups
    where TensorFlow does without oneDNN, as on processors without instructions for neural networks
    (tensorflow/core/kernels/conv_ops_fused_impl.h); such a function is called without the fusion.
    """
    import tensorflow as tf

    if function not in _as_written:
        try:
            return function(*tensors)
        except tf.errors.UnimplementedError:
            with _unfused():
                outputs = function(*tensors)
            _as_written.add(function)
            return outputs
    with _unfused():
        return function(*tensors)


@contextmanager
def _unfused() -> Iterator[None]:
    import tensorflow as tf

    options = tf.config.optimizer
    before = options.get_experimental_options()
    options.set_experimental_options({"remapping": False})
    try:
        yield
    finally:
        # An option that was never set cannot be unset; "remapping" is on by default.
        options.set_experimental_options({**before, "remapping": before.get("remapping", True)})
