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

from tfmp.converters.shared.frameworks import (
    AttrValue,
    GraphDef,
    NodeDef,
    TfFunction,
    TracedFunction,
)
from tfmp.shared.backend import Tensor

FLOAT32 = 1  # types.proto: DT_FLOAT
# Powers of two that FP16 holds with all of their digits.
_FP16_FACTOR = 14


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
        self.floats = {
            tensor.name
            for operation in graph.get_operations()
            for tensor in operation.outputs
            if tensor.dtype.as_datatype_enum == FLOAT32
        }
        self.specs = {
            tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype)
            for operation in graph.get_operations()
            for tensor in operation.outputs
        }
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
    """Changes to a GraphDef, by the names of its tensors."""

    def __init__(self, graph_def: GraphDef) -> None:
        self.graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        self._scaled: dict[tuple[str, int], str] = {}
        self._finders: list[Callable[[Graph], Fillings]] = []
        self._count = len(graph_def.node)
        self.outputs: dict[str, str] = {}

    @property
    def changed(self) -> bool:
        """Whether anything was changed: all changes add operations, or take the place of some."""
        return bool(self._finders) or len(self.graph_def.node) > self._count

    def scaled(self, tensor: str, exponent: int) -> str:
        """The tensor times 2**exponent, which is exact; made once."""
        if exponent == 0:
            return tensor
        if abs(exponent) > _FP16_FACTOR:  # no FP16 constant is that small or large
            step = _FP16_FACTOR if exponent > 0 else -_FP16_FACTOR
            return self.scaled(self.scaled(tensor, step), exponent - step)
        if (tensor, exponent) not in self._scaled:
            factor = self.constant(f"{_label(tensor)}/scale{exponent}", 2.0**exponent)
            # The scope of the tensor's layer, so that the file still says where it belongs.
            name = f"{_label(tensor)}/scaled{exponent}"
            self._add(name, "Mul", [tensor, factor], {"T": FLOAT32})
            self._scaled[tensor, exponent] = f"{name}:0"
        return self._scaled[tensor, exponent]

    def affine(self, tensor: str, factor: np.ndarray, summand: np.ndarray) -> str:
        """The tensor times a factor plus a summand."""
        result = tensor
        for op, values, nothing in (("Mul", factor, 1), ("AddV2", summand, 0)):
            if (values == nothing).all():
                continue
            name = f"{_label(tensor)}/affine/{op}"
            self._add(name, op, [result, self.constant(f"{name}/y", values)], {"T": FLOAT32})
            result = f"{name}:0"
        return result

    def at_least(self, tensor: str, floor: float) -> str:
        """The larger of the tensor and a number; made once."""
        name = f"{_label(tensor)}/floor"
        if name not in self._nodes:
            limit = self.constant(f"{name}/limit", floor)
            self._add(name, "Maximum", [tensor, limit], {"T": FLOAT32})
        return f"{name}:0"

    def constant(self, name: str, value: float | np.ndarray) -> str:
        """A new float32 constant."""
        from tensorflow import make_tensor_proto

        node = self._add(name, "Const", [], {"dtype": FLOAT32})
        node.attr["value"].tensor.CopyFrom(make_tensor_proto(np.asarray(value, np.float32)))
        return f"{name}:0"

    def replace(self, node: Node, function: "Filling", graph: Graph) -> None:
        """Computes a node's result by other operations.

        Args:
            node: a node.
            function: TensorFlow code that takes the node's inputs and gives its outputs.
            graph: the graph that holds the node.
        """
        self.fill(graph, lambda one: [(node, function)] if one is graph else [])

    def fill(self, graph: Graph, find: "Callable[[Graph], Fillings]") -> None:
        """Replaces operations, those of loops and branches, too.

        Args:
            graph: the graph that is changed.
            find: finds the operations of a graph, with what takes their place.
        """
        self._finders.append(find)

    def found(self, graph: Graph) -> "Fillings":
        """The operations of a graph that are replaced, with what takes their place."""
        return [one for find in self._finders for one in find(graph)]

    def become(self, node: Node, *tensors: str, dtypes: Sequence[int] = (FLOAT32,)) -> None:
        """Makes a node a name for tensors of these types: whoever reads it need not change."""
        own = self._nodes[node.name]
        own.attr.clear()
        if len(tensors) == 1:
            (own.attr["T"].type,) = dtypes
            own.op = "Identity"
        else:
            own.op = "IdentityN"
            own.attr["T"].list.type.extend(dtypes)
        own.input[:] = map(_reference, tensors)

    def set_input(self, node: str, index: int, tensor: str) -> None:
        """Makes a node read another tensor."""
        self._nodes[node].input[index] = _reference(tensor)

    def set_output(self, output: str, tensor: str) -> None:
        """Gives another tensor as this output of the graph."""
        self.outputs[output] = tensor

    def _add(self, name: str, op: str, inputs: Iterable[str], types: dict[str, int]) -> NodeDef:
        node = self.graph_def.node.add()
        node.name, node.op = name, op
        node.input.extend(_reference(tensor) for tensor in inputs)
        for key, value in types.items():
            node.attr[key].type = value
        self._nodes[name] = node
        return node


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


def _label(tensor: str) -> str:
    """A name for tensors that are made from a tensor."""
    name, _, index = tensor.partition(":")
    return name if index == "0" else f"{name}_{index}"


def _reference(tensor: str) -> str:
    return tensor.removesuffix(":0")
