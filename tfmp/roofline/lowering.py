"""The work of functions and layers, counted in the programs that XLA gets to compile."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import keras
from keras import ops

from tfmp.roofline.counts import count_work
from tfmp.roofline.work import Work
from tfmp.shared.backend import Tensor, TensorTree, current_backend


def work_of(
    function: Callable[..., TensorTree], arguments: Sequence[TensorTree], first_results: int = 0
) -> Work:
    """The work of a function.

    Args:
        function: a function on tensors, which may read and change variables in place.
        arguments: tensors to call it with.
        first_results: as in `count_work`.
    """
    return count_work(current_backend().program(function, arguments), first_results)


@contextmanager
def without_cudnn(layer: keras.layers.Layer) -> Iterator[None]:
    """Has recurrent layers compute with ordinary operations: XLA cannot show cuDNN's work."""
    layers = [part for part in layer._flatten_layers() if hasattr(part, "use_cudnn")]
    before = [part.use_cudnn for part in layers]
    try:
        for part in layers:
            part.use_cudnn = False
        yield
    finally:
        for part, value in zip(layers, before, strict=True):
            part.use_cudnn = value


def forward_and_backward(
    forward: Callable[[list[Tensor]], list[Tensor]], sources: list[Tensor]
) -> tuple[Callable[..., TensorTree], tuple[list[Tensor], list[Tensor]]]:
    """A layer's forward and backward pass as one function, and what to call it with.

    Args:
        forward: takes the weights and inputs, and gives the floating-point outputs.
        sources: the weights and inputs.

    Returns:
        The function, and the sources with a gradient for each of the outputs.
    """
    seeds = [ops.ones_like(each) for each in forward(sources)]

    def both(sources: list[Tensor], seeds: list[Tensor]) -> TensorTree:
        return current_backend().pulled_back(forward, sources, lambda _: seeds)

    return both, (sources, seeds)
