"""A source's TensorFlow graph as nodes that can be read, measured and rewritten.

A rewrite is a function of the graph, not a changed graph: whenever the repaired source is
traced, with any batch size, it traces the original again and rewrites the trace.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np

from tfmp.converters.intake.saved.loops import rename_functions
from tfmp.converters.shared.frameworks import AttrValue, GraphDef, NodeDef, TracedFunction
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
    """

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
            functions = [one.cached_definition for one in self._graph._functions.values()]
            graphs = list(map(function_def_to_graph, functions))
        found = {
            graph.name: Graph(
                SimpleNamespace(graph=graph, inputs=graph.inputs, outputs=graph.outputs),
                len(graph.inputs),
            )
            for graph in graphs
        }
        for body in found.values():  # which calls some of them
            vars(body)["bodies"] = found
        return found

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
        self.dropped: set[str] = set()
        self.outputs: dict[str, str] = {}

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

    def replace(self, node: Node, function: Callable[..., Tensor], graph: Graph) -> None:
        """Computes a node's result by other operations.

        Args:
            node: a node.
            function: TensorFlow code that takes the node's inputs and gives its outputs.
            graph: the graph that holds the node.
        """
        import tensorflow as tf

        specs = [graph.specs[name] for name in node.inputs]
        traced = tf.function(function, autograph=False).get_concrete_function(*specs)
        body = traced.graph.as_graph_def()
        self.graph_def.library.MergeFrom(body.library)
        placeholders = [tensor.name for tensor in traced.inputs]
        outer = dict(zip(placeholders, map(_reference, node.inputs), strict=True))
        scope = f"{node.name}/tfmp"

        def moved(name: str) -> str:
            control = "^" * name.startswith("^")
            bare = name.removeprefix("^")
            whole = bare if ":" in bare else f"{bare}:0"
            return outer.get(whole, f"{control}{scope}/{bare}")

        for inner in body.node:
            if f"{inner.name}:0" not in outer:
                copy = self.graph_def.node.add()
                copy.CopyFrom(inner)
                copy.name = f"{scope}/{inner.name}"
                del copy.input[:]
                copy.input.extend(map(moved, inner.input))
                self._nodes[copy.name] = copy
        results = [moved(tensor.name.removesuffix(":0")) for tensor in traced.outputs]
        dtypes = [graph.specs[name].dtype.as_datatype_enum for name in node.outputs]
        self.become(node, *results, dtypes=dtypes)

    def fill(self, graph: Graph, find: "Callable[[Graph], Fillings]") -> None:
        """Replaces operations, those of loops and branches, too.

        Args:
            graph: the graph that is changed.
            find: finds the operations of a graph, with what takes their place.
        """
        import tensorflow as tf

        for node, filling in find(graph):
            self.replace(node, filling, graph)
        functions = {one.signature.name: one for one in self.graph_def.library.function}
        for name, body in graph.bodies.items():
            if name in functions and find(body):
                changed = tf.function(partial(_filled, body, find), autograph=False)
                specs = [body.specs[tensor] for tensor in body.inputs]
                functions[name].CopyFrom(changed.get_concrete_function(specs).function_def)
                functions[name].signature.name = name
        # TensorFlow knows functions by their names: other functions get others.
        content = self.graph_def.library.SerializeToString(deterministic=True)
        rename_functions(self.graph_def, f"_{hashlib.sha256(content).hexdigest()[:8]}")

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

    def drop(self, *names: str) -> None:
        """Leaves out nodes that nothing reads any more."""
        self.dropped.update(names)

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
# A function of a node and its graph that gives the replacement, or None.
Gap = Callable[[Node, Graph], Filling | None]


def always(filling: Filling) -> Gap:
    """The gap of an operation that is replaced wherever it is."""

    def gap(node: Node, graph: Graph) -> Filling:
        return filling

    return gap


def inserted(graph: Graph, inputs: list[Tensor], rewrite: Rewrite) -> list[Tensor]:
    """Rewrites a traced graph and puts the result into the graph that is being built."""
    import tensorflow as tf

    current, traced = tf.compat.v1.get_default_graph(), graph.traced
    edits = Edits(traced.graph.as_graph_def())
    rewrite(graph, edits)
    given = dict(zip(graph.inputs, inputs, strict=True))
    for outer, inner in traced.graph.captures:
        given[inner.name] = current.capture(outer)
    for variable in traced.graph.variables:
        current.watch_variable(variable)  # a trace otherwise forgets what it read
    outputs = [edits.outputs.get(name, name) for name in graph.outputs]
    return imported(edits.graph_def, given, outputs, traced.outputs, edits.dropped)


def imported(
    graph_def: GraphDef,
    fed: Mapping[str, Tensor],
    results: Sequence[str],
    known: Sequence[Tensor],
    dropped: Collection[str] = (),
) -> list[Tensor]:
    """Adds a graph to the one that is being built.

    Args:
        graph_def: the graph.
        fed: what takes the place of its tensors, by their names.
        results: names of tensors.
        known: tensors with the shapes of the first results, which operations alone may not tell.
        dropped: names of nodes that are left out.

    Returns:
        The results.
    """
    import tensorflow as tf

    rest = without_nodes(graph_def, {*dropped, *(name.partition(":")[0] for name in fed)})
    read = {name if ":" in name else f"{name}:0" for node in rest.node for name in node.input}
    computed = [name for name in results if name not in fed]
    made = tf.graph_util.import_graph_def(
        rest,
        input_map={name: value for name, value in fed.items() if name in read},
        return_elements=computed,
        name="",
    )
    given = {**fed, **dict(zip(computed, made, strict=True))}
    found = [given[name] for name in results]
    for value, shaped in zip(found, known, strict=False):
        value.set_shape(shaped.shape)
    return found


def without_nodes(graph_def: GraphDef, names: Collection[str]) -> GraphDef:
    """The graph without these nodes, which would stay in it as inputs that nobody feeds."""
    result: GraphDef = type(graph_def)()
    result.library.CopyFrom(graph_def.library)
    result.versions.CopyFrom(graph_def.versions)
    result.node.extend(node for node in graph_def.node if node.name not in names)
    return result


def _filled(body: Graph, find: Callable[[Graph], Fillings], values: list[Tensor]) -> list[Tensor]:
    return inserted(body, values, lambda graph, edits: edits.fill(graph, find))


def _label(tensor: str) -> str:
    """A name for tensors that are made from a tensor."""
    name, _, index = tensor.partition(":")
    return name if index == "0" else f"{name}_{index}"


def _reference(tensor: str) -> str:
    return tensor.removesuffix(":0")
