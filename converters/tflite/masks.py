"""Attention masks that FP16 can hold.

A mask adds a number to logits that is so low that softmax gives 0 there: Keras takes -1e9. FP16
makes that -65504, and two of them, or one and a low logit, minus infinity; a row of nothing else
comes out of softmax as NaN. A number well inside FP16 gives the same 0.
"""

import numpy as np

from tfmp.converters.tflite.graph import Edits, Graph, Node
from tfmp.numerics import FLOAT16

# What Keras itself takes where it computes in float16 (keras/src/layers/activations/softmax.py):
# two of them still fit, and exp(-30000) is 0 in every float format.
_FINITE = -3e4

# What may lie between a mask and the softmax that it is made for.
_ON_THE_WAY = frozenset(
    "Identity Mul Add AddV2 Sub Select SelectV2 Reshape Transpose ExpandDims Squeeze BroadcastTo "
    "Tile Cast StridedSlice ConcatV2 Maximum Minimum".split()
)


def finite_masks(graph: Graph, edits: Edits) -> None:
    """Raises mask constants below FP16's range to a low number within it; a `Rewrite`."""
    for node in graph.nodes:
        values = _lowest(node)
        if values is None or not _only_masks(node, graph):
            continue
        finite = edits.constant(f"{node.name}/finite", np.maximum(values, _FINITE))
        for reader in graph.readers(node.outputs[0]):
            for index, name in enumerate(reader.inputs):
                if name == node.outputs[0]:
                    edits.set_input(reader.name, index, finite)


def _lowest(node: Node) -> np.ndarray | None:
    """The values of a float32 constant that reaches below FP16, else None."""
    from tensorflow import make_ndarray

    if node.op != "Const":
        return None
    values = make_ndarray(node.attributes["value"].tensor)
    if values.dtype != np.float32 or not values.size or not values.min() < -FLOAT16.max:
        return None
    return values


def _only_masks(node: Node, graph: Graph) -> bool:
    """Whether everything that is made from a constant ends in a softmax."""
    waiting, seen = list(node.outputs), set()
    reached = False
    while waiting:
        name = waiting.pop()
        if name in graph.outputs:
            return False
        for reader in graph.readers(name):
            if reader.op in ("Softmax", "LogSoftmax"):
                reached = True
            elif reader.op not in _ON_THE_WAY:
                return False
            elif reader.name not in seen:
                seen.add(reader.name)
                waiting += reader.outputs
    return reached
