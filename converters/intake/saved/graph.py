"""A source's TensorFlow graph as nodes that can be read, measured and rewritten.

A rewrite is a function of the graph, not a changed graph: whenever the repaired source is
traced, with any batch size, it traces the original again and rewrites the trace.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from tfmp.converters.shared.frameworks import (
    AttrValue,
    GraphDef,
    TfFunction,
    TracedFunction,
)
from tfmp.shared.backend import Tensor


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        name: its name, with the scopes of its layers.
        op: its type.
        inputs: names of the tensors that it reads, such as "dense/MatMul:0".
        outputs: names of the tensors that it gives.
        attributes: the attributes of its NodeDef.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttrValue] = field(compare=False, repr=False)


class Graph:
    """The main graph of a trace, or what a loop or branch in it executes.

    Attributes:
        traced: the trace.
        nodes: the nodes in an order in which they can be executed.
        floats: names of the float32 tensors.
        constants: names of the tensors that depend on no input.
        makers: the node that gives each tensor, by the tensor's name.
        inputs: names of the input tensors, in order.
        outputs: names of the output tensors, in order.
        specs: shape and dtype (`tf.TensorSpec`) by tensor name.
        function: the function that it is the body of; None for a main graph.
    """

    function: TfFunction = None

    def __init__(self, traced: TracedFunction, input_count: int) -> None:
        """Reads a `WrappedFunction`."""
        import tensorflow as tf

        self.traced = traced
        self._graph = graph = traced.graph
        self.inputs = tuple(tensor.name for tensor in traced.inputs[:input_count])
        self.outputs = tuple(tensor.name for tensor in traced.outputs)
        self.nodes = tuple(
            Node(
                name=operation.name,
                op=operation.type,
                inputs=tuple(tensor.name for tensor in operation.inputs),
                outputs=tuple(tensor.name for tensor in operation.outputs),
                attributes=operation.node_def.attr,
            )
            for operation in graph.get_operations()
        )
        self.specs = {
            tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype)
            for operation in graph.get_operations()
            for tensor in operation.outputs
        }
        self.floats = {name for name, spec in self.specs.items() if spec.dtype == tf.float32}
        self.makers = {name: node for node in self.nodes for name in node.outputs}
        self._readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(node)
        self.constants: set[str] = set()
        for node in self.nodes:
            own = set(node.outputs).isdisjoint(self.inputs)
            if own and self.constants.issuperset(node.inputs):
                self.constants.update(node.outputs)

    @cached_property
    def bodies(self) -> "Mapping[str, Graph]":
        """The graphs that its loops and branches execute, by their functions' names."""
        from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

        with self._graph.as_default():  # it knows the functions that functions call
            functions = list(self._graph._functions.values())
            graphs = [function_def_to_graph(one.cached_definition) for one in functions]
        found = {}
        for function, graph in zip(functions, graphs, strict=True):
            body = SimpleNamespace(graph=graph, inputs=graph.inputs, outputs=graph.outputs)
            found[graph.name] = Graph(body, len(graph.inputs))
            # It may call some of them.
            vars(found[graph.name]).update(bodies=found, function=function)
        return found

    @cached_property
    def graph_def(self) -> GraphDef:
        """The graph as TensorFlow's message."""
        return self._graph.as_graph_def()

    @property
    def effects(self) -> list[str]:
        """The nodes that run for what they change, each with "^" before its name."""
        return [f"^{one.name}" for one in getattr(self._graph, "control_outputs", ())]

    def static(self, tensor: str) -> np.ndarray | None:
        """The value of a small constant tensor; None if it is unknown before a run."""
        import tensorflow as tf

        return tf.get_static_value(self._graph.get_tensor_by_name(tensor))

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read a tensor."""
        return self._readers.get(tensor, [])


class Edits:
    """Changes to a graph while it is traced anew: functions of its tensors.

    Attributes:
        reads: what a node makes of a tensor before it reads it, by the node's name and the place.
        outputs: what becomes of an output of the graph, by its tensor.
        narrow: types (`tensorflow.DataType`) that become another one.
        wide: that type.
        in_order: whether loops stack what they wrote in the order of writing, as in ONNX, and not
            by its places.
    """

    def __init__(self, narrow: Sequence[int] = (), wide: DTypeLike = np.float32) -> None:
        self.reads: dict[tuple[str, int], list[Filling]] = {}
        self.outputs: dict[str, Filling] = {}
        self.narrow, self.wide, self.in_order = narrow, wide, False
        self._finders: list[Callable[[Graph], Fillings]] = []

    @property
    def changed(self) -> bool:
        """Whether anything was changed."""
        return bool(self._finders or self.reads or self.outputs)

    def read(self, tensor: str, readers: "Iterable[Node]", function: "Filling") -> None:
        """Puts a function of a tensor between it and these readers."""
        for reader in readers:
            for index, name in enumerate(reader.inputs):
                own = self.reads.setdefault((reader.name, index), []) if name == tensor else None
                if own is not None and function not in own:
                    own.append(function)

    def replace(self, node: Node, function: "Filling", graph: Graph) -> None:
        """Computes the result of a node of this graph by a function of the node's inputs."""
        self.fill(lambda one: [(node, function)] if one is graph else [])

    def fill(self, find: "Callable[[Graph], Fillings]") -> None:
        """Replaces the operations that are found in the graph, and in its loops and branches."""
        self._finders.append(find)

    def found(self, graph: Graph) -> "Fillings":
        """The operations of a graph that are replaced, with what takes their place."""
        return [one for find in self._finders for one in find(graph)]


Rewrite = Callable[[Graph, Edits], None]
# TensorFlow code that takes the inputs of a node and gives its outputs.
Filling: TypeAlias = Callable[..., Tensor]
Fillings: TypeAlias = list[tuple[Node, Filling]]
# A replacement of a node and of those before it, whose inputs the node is given instead of its own.
Chain: TypeAlias = tuple[Node, Filling]
# A function of a node and its graph that gives the replacement, or None.
Gap = Callable[[Node, Graph], Filling | Chain | None]


def always(filling: Filling) -> Gap:
    """The gap of an operation that is replaced wherever it is."""

    def gap(node: Node, graph: Graph) -> Filling:
        return filling

    return gap
