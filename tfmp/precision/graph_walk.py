"""Traces a function on either backend, and finds the marked layers that its outputs come from."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import keras
from keras import layers, tree

from tfmp.precision.layer_tree import LayerNode, is_graph, only_moves_values
from tfmp.shared.backend import Tensor, TensorTree

if TYPE_CHECKING:
    import tensorflow as tf
    from jax.extend.core import Jaxpr, JaxprEqn, Var


class Marks:
    """The layers that returned each traced tensor."""

    def __init__(self) -> None:
        self.tensorflow: dict[int, list[int]] = {}
        self.inner: set[int] = set()
        self._alive: list[Tensor] = []

    def add(self, layer: layers.Layer, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results, and returns them marked: use them in place of the others."""
        return tree.map_structure(lambda tensor: self._add(layer, tensor), outputs)

    def _add(self, layer: layers.Layer, tensor: Tensor) -> Tensor:
        if not keras.ops.is_tensor(tensor):
            return tensor
        if keras.backend.backend() == "jax":
            return _named(tensor, layer)
        self._alive.append(tensor)  # an id is only good while its tensor lives
        self.tensorflow.setdefault(id(tensor), []).append(id(layer))
        return tensor


@dataclass(frozen=True)
class Origin:
    """The layer or operation that a tensor comes from, one step back towards the inputs.

    Attributes:
        layer: id of the layer that returned the tensor; None for an operation.
        sources: the tensors that went in.
        is_operation: False for a mere connection, such as the call of an inlined function.
    """

    layer: int | None
    sources: tuple[Hashable, ...]
    is_operation: bool = True


class Graph(Protocol):
    """A traced function.

    Attributes:
        outputs: the results of the function.
        inside_loops: ids of layers that ran inside loops and branches, which no walk enters.
    """

    outputs: list[Hashable]
    inside_loops: set[int]

    def origin(self, tensor: Hashable) -> Origin:
        """The origin of a tensor, one step towards the inputs."""


@dataclass(frozen=True)
class Inputs:
    """The arguments to trace a model with.

    Attributes:
        keywords, positional: nested structures of `KerasTensor`s, which have shapes and dtypes.
        size: the number that stands for unknown sizes; None for a symbol.
    """

    keywords: dict[str, TensorTree]
    positional: list[TensorTree]
    size: int | None = None


# Takes a model's keyword arguments and its positional ones.
Traceable = Callable[[Mapping[str, TensorTree], list[TensorTree]], TensorTree]


def trace(function: Traceable, inputs: Inputs, marks: Marks) -> Graph:
    """Traces a function of a model's keyword and positional arguments.

    Args:
        function: called once, with traced tensors; it calls `marks.add`.
        inputs: the shapes and dtypes of these tensors.
        marks: gets the tensors that the function marks.
    """
    if keras.backend.backend() == "jax":
        return _trace_jax(function, inputs)
    return _trace_tensorflow(function, inputs, marks)


def producers(graph: Graph, root: LayerNode) -> frozenset[int]:
    """The layers that compute a traced model's outputs, by id.

    A container counts if its own code has operations between its layers and the output.
    """
    nodes = {id(node.layer): node for node in root.within()}
    found = {key for key in graph.inside_loops if key in nodes and nodes[key].head is None}
    pending = [(output, root) for output in graph.outputs]
    seen = set()
    while pending:
        tensor, container = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        origin = graph.origin(tensor)
        node = nodes.get(origin.layer) if origin.layer is not None else None
        if node is None:
            if origin.is_operation and origin.sources and not is_graph(container.layer):
                found.add(id(container.layer))
        elif any(child.head is None for child in node.children):
            container = node
        else:
            found.add(id(node.layer))
            if not only_moves_values(node.layer):
                continue
        pending.extend((source, container) for source in origin.sources)
    return frozenset(found)


# --- TensorFlow: a graph of operations; a tensor that a layer returned is known by its id ---


@dataclass(frozen=True)
class _TensorFlowTensor:
    """A tensor and the layers that returned it; `left` of them are still to be walked through."""

    tensor: Tensor = field(compare=False)
    key: int
    left: int


class _TensorFlowGraph:
    def __init__(self, outputs: Iterable[Tensor], marks: Marks, graph: "tf.Graph") -> None:
        self._marks = marks.tensorflow
        self.outputs: list[Hashable] = [self._all_of(tensor) for tensor in outputs]
        self.inside_loops = {
            layer
            for tensor in marks._alive
            if tensor.graph is not graph
            for layer in self._marks[id(tensor)]
        }

    def _all_of(self, tensor: Tensor) -> _TensorFlowTensor:
        return _TensorFlowTensor(tensor, id(tensor), len(self._marks.get(id(tensor), ())))

    def origin(self, tensor: Hashable) -> Origin:
        assert isinstance(tensor, _TensorFlowTensor)
        if tensor.left:
            layer = self._marks[tensor.key][tensor.left - 1]
            rest = _TensorFlowTensor(tensor.tensor, tensor.key, tensor.left - 1)
            return Origin(layer, (rest,))
        return Origin(None, tuple(map(self._all_of, tensor.tensor.op.inputs)))


def _trace_tensorflow(function: Traceable, inputs: Inputs, marks: Marks) -> Graph:
    import tensorflow as tf

    with tf.__internal__.FuncGraph("tfmp_dry_run").as_default() as graph:
        keywords, positional = tree.map_structure(
            lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape),
            (inputs.keywords, inputs.positional),
        )
        outputs = tree.flatten(function(keywords, positional))
    return _TensorFlowGraph(filter(tf.is_tensor, outputs), marks, graph)


# --- JAX: a jaxpr; a tensor that a layer returned goes through an equation with a name ---

_PREFIX = "tfmp/"
# Equations whose inner jaxpr runs exactly once, on their own inputs.
_CALLS = ("pjit", "jit", "closed_call", "checkpoint", "remat", "custom_jvp_call", "custom_vjp_call")


def _named(tensor: Tensor, layer: layers.Layer) -> Tensor:
    from jax.ad_checkpoint import checkpoint_name

    marked = checkpoint_name(tensor, f"{_PREFIX}{id(layer)}")
    if hasattr(tensor, "_keras_mask"):
        marked._keras_mask = tensor._keras_mask
    return marked


class _JaxGraph:
    def __init__(self, jaxpr: "Jaxpr") -> None:
        self.outputs: list[Hashable] = list(map(id, jaxpr.outvars))
        self.inside_loops: set[int] = set()
        self._origins: dict[Hashable, Origin] = {}
        self._alive = jaxpr  # its variables are known by their ids
        self._read(jaxpr)

    def origin(self, tensor: Hashable) -> Origin:
        return self._origins.get(tensor, Origin(None, ()))

    def _read(self, jaxpr: "Jaxpr") -> None:
        for equation in jaxpr.eqns:
            inner = _inner_jaxprs(equation)
            sources = tuple(map(id, equation.invars))
            if _layer_of(equation) is not None:
                self._connect(equation.outvars, Origin(_layer_of(equation), sources))
            elif equation.primitive.name in _CALLS and len(inner) == 1:
                self._inline(equation, inner[0])
            else:
                self._connect(equation.outvars, Origin(None, sources))
                for part in inner:
                    self.inside_loops.update(_layers_in(part))

    def _inline(self, equation: "JaxprEqn", inner: "Jaxpr") -> None:
        self._read(inner)
        for outer, result in zip(equation.outvars, inner.outvars, strict=False):
            self._connect([outer], Origin(None, (id(result),), is_operation=False))
        for argument, outer in zip(inner.invars, equation.invars, strict=False):
            # JAX shares the jaxpr of a function that is called twice: both calls lie behind it.
            known = self._origins.get(id(argument), Origin(None, ()))
            sources = (*known.sources, id(outer))
            self._connect([argument], Origin(None, sources, is_operation=False))

    def _connect(self, variables: "Iterable[Var]", origin: Origin) -> None:
        for variable in variables:
            self._origins[id(variable)] = origin


def _layer_of(equation: "JaxprEqn") -> int | None:
    name = str(equation.params.get("name", "")) if equation.primitive.name == "name" else ""
    return int(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None


def _inner_jaxprs(equation: "JaxprEqn") -> "list[Jaxpr]":
    found = []
    for value in tree.flatten(list(equation.params.values())):
        value = getattr(value, "jaxpr", value)
        if hasattr(value, "eqns"):
            found.append(value)
    return found


def _layers_in(jaxpr: "Jaxpr") -> set[int]:
    found = set()
    for equation in jaxpr.eqns:
        layer = _layer_of(equation)
        found |= {layer} if layer is not None else set()
        for inner in _inner_jaxprs(equation):
            found |= _layers_in(inner)
    return found


def _trace_jax(function: Traceable, inputs: Inputs) -> Graph:
    import jax

    structure = (inputs.keywords, inputs.positional)

    # Keras keeps shapes in containers of its own, which JAX does not look into.
    def flat_function(*leaves: Tensor) -> list[Tensor]:
        outputs = function(*tree.pack_sequence_as(structure, list(leaves)))
        return [output for output in tree.flatten(outputs) if keras.ops.is_tensor(output)]

    # One symbol for every unknown size, as Keras has it for its own shape inference; at least 2,
    # so that no axis of it broadcasts by accident.
    (symbol,) = jax.export.symbolic_shape("(n)", constraints=["n >= 2"])
    size = symbol if inputs.size is None else inputs.size
    specs = [
        jax.ShapeDtypeStruct(tuple(size if n is None else n for n in spec.shape), spec.dtype)
        for spec in tree.flatten(structure)
    ]
    return _JaxGraph(jax.make_jaxpr(flat_function)(*specs).jaxpr)
