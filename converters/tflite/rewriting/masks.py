"""Attention masks that FP16 can hold.

A mask adds a very low number to logits, for which softmax gives 0: Keras takes -1e9. FP16 turns it
into -65504, and the sum of two masks, or of a mask and a low logit, into minus infinity; softmax
turns a row of minus infinities into NaN. A number well inside FP16 gives the same 0.

A row that is masked throughout has another trap: -1e9 swallows the logits that it is added to, and
the row comes out uniform; a smaller number leaves their differences. Therefore a floor is put under
the inputs of the softmax, at which all masked logits are equal again.

The number may also be high and be subtracted, or be multiplied by something negative, as in
`logits - 1e30 * (1 - keep)` and `logits + (keep - 1) * 1e30`.
"""

from collections.abc import Iterator

import numpy as np

from tfmp.converters.intake import Edits, Graph, Node
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
_ADDING = frozenset(("Add", "AddV2", "BiasAdd", "Sub"))


def mask_constants(graph: Graph) -> list[Node]:
    """The constants below FP16's range that only mask logits."""
    return [node for node, _, _ in _masks(graph)]


def finite_masks(graph: Graph, edits: Edits) -> None:
    """Moves mask constants past FP16's range to numbers well within it; this is a `Rewrite`."""
    for node, values, ends in _masks(graph):
        held = np.clip(values, _FINITE, -_FINITE)
        finite = edits.constant(f"{node.name}/finite", held)
        for reader in graph.readers(node.outputs[0]):
            for index, name in enumerate(reader.inputs):
                if name == node.outputs[0]:
                    edits.set_input(reader.name, index, finite)
        for softmax in ends:
            edits.set_input(softmax.name, 0, edits.at_least(softmax.inputs[0], _FLOOR))


def _masks(graph: Graph) -> Iterator[tuple[Node, np.ndarray, list[Node]]]:
    """Masks, their values, and the softmaxes that read the sums with them."""
    for node in graph.nodes:
        values = known_values(node)
        if values is None or np.isnan(values).any():
            continue
        low, high = values.min() < -FLOAT16.max, values.max() > FLOAT16.max
        if low == high or (high and not _lowers(node, graph)):
            continue
        ends = _only_masks(node, graph)
        if ends is not None:
            yield node, values, ends


def known_values(node: Node | None) -> np.ndarray | None:
    """The values of a float32 constant, else None."""
    from tensorflow import make_ndarray

    if node is None or node.op != "Const":
        return None
    values = make_ndarray(node.attributes["value"].tensor)
    return values if values.dtype == np.float32 and values.size else None


# What gives the numbers that it is given, at other places.
_MOVING = frozenset(
    "Identity Reshape Transpose ExpandDims Squeeze BroadcastTo Tile StridedSlice".split()
)


def _lowers(node: Node, graph: Graph) -> bool:
    """Whether a constant of numbers that are not negative only makes other values lower."""
    values = known_values(node)
    if values is None or values.min() < 0:
        return False
    waiting = [(name, 1) for name in node.outputs]  # with the sign of its numbers
    while waiting:
        name, sign = waiting.pop()
        for reader in graph.readers(name):
            if reader.op in ("Mul", "SelectV2", "Select"):
                others = [other for other in reader.inputs if other != name]
                if reader.op != "Mul":
                    others = others[1:]  # the condition
                low, high = _bounds(others[0], graph) if len(others) == 1 else _UNKNOWN
                turned = reader.op == "Mul" and high <= 0
                if not turned and low < 0:
                    return False
                waiting += [(output, -sign if turned else sign) for output in reader.outputs]
            elif reader.op in _MOVING:
                waiting += [(output, sign) for output in reader.outputs]
            elif reader.op not in _ADDING:
                return False
            else:
                taken = reader.op == "Sub" and reader.inputs[1] == name
                if sign == (-1 if taken else 1):
                    return False
    return True


_UNKNOWN = (-np.inf, np.inf)


def _bounds(tensor: str, graph: Graph) -> tuple[float, float]:
    """Numbers that all values of a tensor lie between, as far as its makers tell."""
    node = graph.makers.get(tensor)
    values = known_values(node)
    if node is None:
        return _UNKNOWN
    if values is not None:
        return float(values.min()), float(values.max())
    if node.op == "Cast" and graph.specs[node.inputs[0]].dtype.is_bool:
        return 0.0, 1.0
    if node.op in _MOVING:
        return _bounds(node.inputs[0], graph)
    if node.op in ("Sub", "Add", "AddV2"):
        (low, high), (other_low, other_high) = (_bounds(name, graph) for name in node.inputs)
        if node.op == "Sub":
            other_low, other_high = -other_high, -other_low
        return low + other_low, high + other_high
    return _UNKNOWN


def _only_masks(node: Node, graph: Graph) -> list[Node] | None:
    """None unless all that is made from a constant ends in softmax; those that read a sum of it."""
    waiting, seen = [(name, False) for name in node.outputs], set()
    ends: dict[str, tuple[Node, bool]] = {}
    while waiting:
        name, added = waiting.pop()
        if name in graph.outputs:
            return None
        for reader in graph.readers(name):
            if reader.op == "Softmax":
                ends[reader.name] = reader, added or ends.get(reader.name, (reader, False))[1]
            elif reader.op not in _ON_THE_WAY:
                return None
            elif (reader.name, added) not in seen:
                seen.add((reader.name, added))
                waiting += [(output, added or reader.op in _ADDING) for output in reader.outputs]
    return [softmax for softmax, added in ends.values() if added] if ends else None
