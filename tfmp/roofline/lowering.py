"""The work of functions and layers.

It is counted in the programs that XLA gets before it compiles them. A backend without XLA runs the
function, and each of its operations is counted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import keras
from keras import ops

from tfmp.roofline.counts import count_work
from tfmp.roofline.work import Work
from tfmp.shared.backend import OperationCost, Tensor, TensorTree, current_backend


def work_of(
    function: Callable[..., TensorTree], arguments: Sequence[TensorTree], first_results: int = 0
) -> Work:
    """The work of a function.

    Args:
        function: a function on tensors, which may read and change variables in place.
        arguments: tensors to call it with; without XLA it is called.
        first_results: as in `count_work`.
    """
    own = current_backend()
    if own.has_xla:
        return count_work(own.program_text(function, arguments), first_results)
    return sum(map(_work, own.costs(function, arguments)), Work())


def _work(cost: OperationCost) -> Work:
    return Work(
        {cost.dtype: cost.products} if cost.products else {},
        cost.other or 0,
        cost.bytes,
        passes=1,
        uncounted=(cost.name,) if cost.other is None else (),
    )


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


def layer_work(
    forward: Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]],
    weights: Sequence[Tensor],
    inputs: Sequence[Tensor],
) -> tuple[Work, Work]:
    """The work of a layer's forward pass, and of its backward pass.

    Args:
        forward: takes weights and inputs, returns the floating-point outputs.
        weights: the trainable weights.
        inputs: the floating-point inputs.
    """
    own, count = current_backend(), len(weights)
    sources = [*weights, *inputs]
    likes = [(tuple(one.shape), keras.backend.standardize_dtype(one.dtype)) for one in sources]
    results: list[tuple[tuple[int, ...], str]] = []

    def outputs(*sources: Tensor) -> list[Tensor]:
        return list(forward(sources[:count], sources[count:]))

    def note_results(*sources: Tensor) -> list[Tensor]:
        found = outputs(*sources)
        results.extend((one.shape, keras.backend.standardize_dtype(one.dtype)) for one in found)
        return found

    def both(sources: list[Tensor], seeds: list[Tensor]) -> TensorTree:
        return own.pulled_back(lambda some: outputs(*some), sources, lambda _: seeds)

    once = work_of(outputs, sources)
    own.trace(note_results, likes)
    # The gradient of the outputs exists only after them.
    seeds = [ops.ones(*result) for result in results]
    return once, work_of(both, (sources, seeds), first_results=len(results)) - once
