"""Attention masks that FP16 can hold.

A mask adds a very low number to logits, for which softmax gives 0: Keras takes -1e9. FP16 turns it
into -65504, and the sum of two masks, or of a mask and a low logit, into minus infinity; softmax
turns a row of minus infinities into NaN. A number well inside FP16 gives the same 0.

A row that is masked throughout has another trap: -1e9 swallows the logits that it is added to, and
the row comes out uniform; a smaller number leaves their differences. Therefore a floor is put under
the inputs of the softmax, at which all masked logits are equal again.

The number may also be high and be subtracted, or be multiplied by something negative, as in
`logits - 1e30 * (1 - keep)` and `logits + (keep - 1) * 1e30`. After one
that raises logits, softmax gives 0 for all others.
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# What Keras itself takes where it computes in float16 (keras/src/layers/activations/softmax.py):
# two of them still fit.
_FINITE = -3e4
# Above every masked logit below 10,000, and exp(-20000) is 0 in every float format.
_FLOOR = -2e4

# What may lie between a mask and the softmax that it is made for.
_ON_THE_WAY = frozenset(
    "Identity Mul Add AddV2 BiasAdd Sub Select SelectV2 Reshape Transpose ExpandDims Squeeze "
    "BroadcastTo Tile Cast StridedSlice ConcatV2 Maximum Minimum".split()
)


def mask_constants(graph: Graph) -> list[Node]:
    """The constants past FP16's range that only mask logits."""
    return [node for node, _, _ in _masks(graph)]


def finite_masks(graph: Graph, edits: Edits) -> None:
    """Moves mask constants past FP16's range to numbers well within it; this is a `Rewrite`."""
    for node, values, ends in _masks(graph):
        finite = held(np.clip(values, _FINITE, -_FINITE))
        edits.read(node.outputs[0], graph.readers(node.outputs[0]), finite)
        for softmax in ends:
            edits.read(softmax.inputs[0], [softmax], _above_floor)


def _above_floor(x: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.maximum(x, _FLOOR)


def _masks(graph: Graph) -> Iterator[tuple[Node, np.ndarray, list[Node]]]:
    """Masks, their values, and the softmaxes that read them."""
    for node in graph.nodes:
        values = known_values(node, graph)
        if values is None or np.isnan(values).any():
            continue
        if np.abs(values).max() <= FLOAT16.max:
            continue
        if ends := only_reaches(node.outputs, graph, ("Softmax",), _ON_THE_WAY):
            yield node, values, ends


def held(values: float | np.ndarray) -> Filling:
    """These numbers, in place of a constant."""
    import tensorflow as tf

    return lambda _: tf.constant(values, tf.float32)


def known_values(node: Node, graph: Graph) -> np.ndarray | None:
    """The values of a float32 constant, else None."""
    own = node.op == "Const" and node.outputs[0] in graph.floats
    values = graph.static(node.outputs[0]) if own else None
    return values if values is not None and values.size else None


def only_reaches(
    tensors: Iterable[str], graph: Graph, ends: Collection[str], passing: Collection[str]
) -> list[Node]:
    """The operations in which all ends that is made of tensors; none where it goes elsewhere too.

    Args:
        tensors: their names.
        graph: the graph.
        ends: the operations in question.
        passing: operations that may lie on the way.
    """
    waiting, seen = list(tensors), dict[str, Node]()
    while waiting:
        name = waiting.pop()
        if name in graph.outputs:
            return []
        for reader in graph.readers(name):
            if reader.op not in ends and reader.op not in passing:
                return []
            if reader.name not in seen and reader.op not in ends:
                waiting += reader.outputs
            seen[reader.name] = reader
    return [node for node in seen.values() if node.op in ends]


def behind(graph: Graph, tensor: str, passed: Collection[str]) -> Node:
    """The node that gives a tensor, before operations that are passed by."""
    while (maker := graph.makers[tensor]).op in passed:
        tensor = maker.inputs[maker.outputs.index(tensor)]
    return maker
