"""Offsets that cancel, taken out before FP16 rounds beside them.

A variance as mean(x^2) - mean(x)^2 subtracts two numbers near 6,400 where x is 80 +- 1, and FP16
rounds both by up to 2. Around another origin the variance is the same, and FP16 holds the squares.
A softmax, a layer normalization and distances between points do not mind either. This is not read
from operations: the origin is moved, and the outputs are compared.
"""

from collections.abc import Callable, Collection, Iterator

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node, reached
from tfmp.converters.tflite.rewriting.ranges import SUMS, Magnitudes
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# FP16 rounds numbers by up to 2**-11: the difference of numbers so many times as large, by 3 %.
_CANCELS = 64
# Half-widths of a range from zero at which FP16 rounds by 1 % of a half-width.
_FAR = 20.0
_DIFFERENCES = frozenset(("Add", "AddV2", "BiasAdd", "Sub"))

# What is taken from a tensor: a number, or the mean over these axes.
Origin = float | tuple[int, ...]


def cancelling(graph: Graph, seen: Magnitudes) -> Iterator[tuple[Node, float]]:
    """Differences of much larger numbers, with the peak of the smaller operand."""
    for node in graph.nodes:
        known = seen.keys() >= {*node.inputs, *node.outputs}
        if node.op in _DIFFERENCES and known and graph.constants.isdisjoint(node.inputs):
            large = min(seen[name].peak for name in node.inputs)
            if 0 < seen[node.outputs[0]].peak < large / _CANCELS:
                yield node, large


def origins(graph: Graph, seen: Magnitudes) -> Iterator[tuple[str, Origin]]:
    """Tensors that may have another origin, and the origins to try, the first tensors first."""
    tensors = {  # with a summand that becomes another one
        name
        for name, one in seen.items()
        if one.offset > _FAR and graph.makers[name].op in _DIFFERENCES
    }
    for node, _ in cancelling(graph, seen):
        tensors |= _meet(node, graph)
    for node in graph.nodes:
        for name in tensors.intersection(node.outputs) - graph.constants:
            one = seen[name]
            if one.offset > 1:
                yield name, float(one.low + one.high) / 2
            if axes := _axes(name, graph):
                yield name, axes


def move_origin(graph: Graph, edits: Edits, name: str, origin: Origin) -> None:
    """Subtracts from a tensor before anything reads it; a `Rewrite` once the rest is bound."""
    _read_through(_from(origin), name, graph, edits)


def lose_small(graph: Graph, edits: Edits, names: Collection[str], step: float) -> None:
    """Rounds subnormal FP16 numbers to steps before anything reads them; a `Rewrite` once bound."""
    import tensorflow as tf

    def rounded(x: Tensor) -> Tensor:
        return tf.where(tf.abs(x) < FLOAT16.smallest_normal, tf.round(x / step) * step, x)

    for name in names:
        _read_through(rounded, name, graph, edits)


def _read_through(function: Filling, name: str, graph: Graph, edits: Edits) -> None:
    """Puts a function of a tensor between it and its readers."""
    import tensorflow as tf

    label = moved_name(name).rpartition("/")[2].removesuffix(":0")
    edits.read(name, graph.readers(name), lambda x: tf.identity(function(x), label))


def moved_name(name: str) -> str:
    """The tensor that takes the place of another."""
    node, _, index = name.partition(":")
    return f"{node}/tfmp/origin_{index}:0"


def _from(origin: Origin) -> Callable[[Tensor], Tensor]:
    import tensorflow as tf

    if isinstance(origin, float):
        return lambda x: x + (-origin)
    return lambda x: x - tf.reduce_mean(x, origin, keepdims=True)


def _meet(node: Node, graph: Graph) -> set[str]:
    """The last tensors from which both operands of a difference are made."""
    one, other = (reached([name], lambda each: graph.makers[each].inputs) for name in node.inputs)
    sides = one ^ other
    return {
        name
        for name in one & other & graph.floats
        if any(not sides.isdisjoint(reader.outputs) for reader in graph.readers(name))
    }


def _axes(name: str, graph: Graph) -> tuple[int, ...]:
    """The axes of a sum or mean over a tensor; else those between samples and channels."""
    for reader in graph.readers(name):
        known = graph.static(reader.inputs[1]) if reader.op in SUMS else None
        if known is not None:
            return tuple(np.reshape(known, -1).tolist())
    return tuple(range(1, (graph.specs[name].shape.rank or 0) - 1))
