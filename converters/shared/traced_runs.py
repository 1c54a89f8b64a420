"""Runs traced TensorFlow functions as they were written."""

from collections.abc import Sequence

from tfmp.converters.shared.frameworks import TracedFunction
from tfmp.shared.backend import Tensor


def run_traced(function: TracedFunction, *tensors: Tensor) -> Sequence[Tensor]:
    """Calls a traced function without the fusions of TensorFlow's optimizer.

    It fuses a convolution with what follows (tensorflow/core/grappler/optimizers/remapper.cc), also
    where the channels of a normalization lie on another axis than those of the convolution: the
    results are then wrong without a word. And the fused kernel has no groups where TensorFlow does
    without oneDNN, as on processors without instructions for neural networks.
    """
    import tensorflow as tf

    options = tf.config.optimizer
    before = options.get_experimental_options()
    options.set_experimental_options({"remapping": False})
    try:
        return function(*tensors)
    finally:
        # An option that was never set cannot be unset; "remapping" is on by default.
        options.set_experimental_options({**before, "remapping": before.get("remapping", True)})
