"""Nodes and bodies of a graph as lists: onnx_ir's iterators take several times as long."""

from collections.abc import Iterator

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from tfmp.converters.shared.tensors import unique_name


def nodes_of(graph: ir.Graph) -> list[ir.Node]:
    """The nodes of a graph in order, each followed by the nodes of its bodies."""
    found: list[ir.Node] = []
    _collect(graph, found)
    return found


def _collect(graph: ir.Graph, found: list[ir.Node]) -> None:
    for node in graph:
        found.append(node)
        for _, body in bodies_of(node):
            _collect(body, found)


def bodies_of(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """The graphs inside a node, by the name of their attribute; no op of ONNX has lists of them."""
    for name, attribute in node.attributes.data.items():
        if attribute.type == ir.AttributeType.GRAPH:
            yield name, attribute.as_graph()


def graphs_of(model: ir.Model) -> list[ir.Graph]:
    """The model's own graph and every body in it, outermost first."""
    bodies = (body for node in nodes_of(model.graph) for _, body in bodies_of(node))
    return [model.graph, *bodies]


def remove_unused(model: ir.Model) -> None:
    """Removes the nodes, optional outputs and initializers that nothing reads."""
    RemoveUnusedNodesPass()(model)


def name_nodes(model: ir.Model) -> None:
    """Gives every node a name of its own; unique names stay."""
    taken: set[str] = set()
    for node in nodes_of(model.graph):
        node.name = unique_name(node.name or f"{node.op_type}_unnamed", taken)
        taken.add(node.name)


class UniqueNames:
    """Makes names that no value of a model has yet."""

    def __init__(self, model: ir.Model) -> None:
        """Reads the names that the model has."""
        self._taken: set[str | None] = set()
        for graph in graphs_of(model):
            self._taken.update(value.name for value in graph.inputs)
            self._taken.update(graph.initializers)
        for node in nodes_of(model.graph):
            self._taken.update(value.name for value in node.outputs)

    def __call__(self, name: str) -> str:
        """This name, or a similar one if it is taken; the result is taken from now on."""
        unique = unique_name(name, self._taken)
        self._taken.add(unique)
        return unique
