"""The cost of FP32 nodes: their multiplications, the data that they move, and casts around them."""

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from tfmp.converters.onnx.fp16.rules import Decisions
from tfmp.converters.onnx.graph import EXACT, FP16, PRODUCTS, bodies_of, depth_of, is_float

# In the time that a GPU moves an element through a cast (two bytes on one side and four on the
# other) it multiplies and adds this often in FP32: an NVIDIA A100's data sheet has 19.5e12 FP32
# operations and 1.56e12 bytes a second, so 6 bytes are 75 operations.
_MULTIPLICATIONS_PER_ELEMENT = 37

# Stands for everything that is FP32 in any case: inputs, outputs, nodes that a rule keeps there.
_ALWAYS = ""


class Costs:
    """The cost of any choice of FP32 nodes, once sizes are known.

    Attributes:
        nodes: the nodes that can be chosen.
    """

    def __init__(self, model: ir.Model, decisions: Decisions) -> None:
        """Reads the graph.

        Args:
            model: a model whose nodes have unique names.
            decisions: decisions of `rules.decide` on the model.
        """
        self.nodes = nodes = [node for node in decisions if _is_choice(node, decisions)]
        self._users = _users(model, decisions, nodes)
        self._depth = {str(node.name): depth_of(node) for node in nodes}
        self._products = {str(node.name) for node in nodes if node.op_type in PRODUCTS}
        self._results = {str(node.name): list(node.outputs) for node in nodes}
        self._sizes: Mapping[ir.Value, int] = {}

    def measure(self, sizes: Mapping[ir.Value, int]) -> None:
        """Takes the number of elements of values; any other value counts as one element."""
        self._sizes = sizes

    def multiplications(self, nodes: Collection[str]) -> float:
        """The number of multiplications in these nodes, roughly: good for comparing nodes."""
        return sum(self._elements(node) * self._depth[node] for node in nodes)

    def share(self, nodes: Collection[str]) -> float:
        """The multiplications in these nodes as a share of those in all nodes."""
        return self.multiplications(nodes) / max(self.multiplications(self._depth), 1.0)

    def casts(self, nodes: Collection[str]) -> int:
        """The number of values that are needed in both precisions with these nodes in FP32."""
        return len(self._crossing(nodes))

    def total(self, nodes: Collection[str]) -> float:
        """The multiplications in FP32, and the moved data in the same unit."""
        moved = sum(self._elements(node) for node in nodes if node not in self._products)
        cast = sum(self._sizes.get(value, 1) for value in self._crossing(nodes))
        return self.multiplications(nodes) + _MULTIPLICATIONS_PER_ELEMENT * float(moved + cast)

    def _elements(self, node: str) -> int:
        return sum(self._sizes.get(value, 0) for value in self._results[node]) or 1

    def _crossing(self, nodes: Collection[str]) -> list[ir.Value]:
        chosen = {*nodes, _ALWAYS}
        return [
            value
            for value, users in self._users.items()
            if not users.isdisjoint(chosen) and not users <= chosen
        ]


def _is_choice(node: ir.Node, decisions: Decisions) -> bool:
    """Whether the precision of a node changes results: it does more than move or pick values."""
    moves = node.op_type in EXACT or node.op_type in ("Cast", "CastLike", "Shape", "Size")
    return decisions[node].dtype == FP16 and not moves


def _users(
    model: ir.Model, decisions: Decisions, nodes: Sequence[ir.Node]
) -> dict[ir.Value, set[str]]:
    """The nodes that make or read each float value, seen through nodes that only move values."""
    switchable = set(nodes)
    source: dict[ir.Value, ir.Value] = {}
    users: dict[ir.Value, set[str]] = {}

    def user(value: ir.Value | None, name: str) -> None:
        if value is not None and is_float(value) and _is_made(value):
            users.setdefault(source.get(value, value), set()).add(name)

    for value in model.graph.inputs:
        user(value, _ALWAYS)
    for node in model.graph.all_nodes():
        decision = decisions.get(node)
        if node not in switchable and node.op_type in EXACT and node.inputs:
            read = next((value for value in node.inputs if is_float(value)), None)
            if read is not None and _is_made(read):
                source.update(dict.fromkeys(node.outputs, source.get(read, read)))
                continue
        if node in switchable:
            name = str(node.name)
        elif decision is None or decision.dtype == FP16:
            continue
        else:
            name = _ALWAYS
        inside = [value for _, body in bodies_of(node) for value in (*body.inputs, *body.outputs)]
        for value in (*node.inputs, *node.outputs, *inside):
            user(value, name)
    for value in model.graph.outputs:
        user(value, _ALWAYS)
    return users


def _is_made(value: ir.Value) -> bool:
    """Whether a value has to be cast: constants exist in both precisions."""
    return value.const_value is None or value.is_graph_input()
