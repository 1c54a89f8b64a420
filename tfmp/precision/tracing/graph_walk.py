"""Traces a function on either backend, and finds the marked layers that its outputs come from."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import keras
import numpy as np
from keras import tree

from tfmp.precision import NARROW_DTYPES
from tfmp.precision.layer_tree import LayerNode, is_graph, only_moves_values
from tfmp.precision.tracing.exponents import Value, fits
from tfmp.precision.tracing.hazards import (
    EXPONENTIAL,
    PRODUCT,
    PROMOTION,
    SQUARE,
    SUM,
    Fact,
    of_constant,
)
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.packages import user_line

if TYPE_CHECKING:
    import tensorflow as tf
    from jax.extend.core import Jaxpr, JaxprEqn, Var


class Marks:
    """The layers that returned each traced tensor, and whose code made each operation.

    The operations of a graph between its layers are marked as layers are.

    Attributes:
        tensorflow: ids of the layers that returned a tensor, by its id.
        owners: ids of the layers whose own code made an operation, by its place in the graph.
    """

    def __init__(self) -> None:
        self.tensorflow: dict[int, list[int]] = {}
        self.owners: dict[int, int] = {}
        self._alive: list[Tensor] = []

    def add(self, layer: keras.Operation, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results, and returns them marked: use them in place of the others."""
        return tree.map_structure(lambda tensor: self._add(layer, tensor), outputs)

    def begin(self, layer: keras.Operation, arguments: TensorTree) -> tuple[TensorTree, int]:
        """Marks the begin of a layer's own code; returns its arguments marked, and a place."""
        if keras.backend.backend() == "jax":
            marked: dict[int, Tensor] = {}  # x * x has to stay a square

            def mark(tensor: Tensor) -> Tensor:
                if not keras.ops.is_tensor(tensor):
                    return tensor
                return marked.setdefault(id(tensor), _named(tensor, layer, _BEGIN))

            return tree.map_structure(mark, arguments), 0
        return arguments, _operations()

    def end(self, layer: keras.Operation, begin: int) -> None:
        """Marks the end of a layer's code, after the layers in it have ended theirs."""
        if keras.backend.backend() != "jax":
            for place in range(begin, _operations()):
                self.owners.setdefault(place, id(layer))

    def _add(self, layer: keras.Operation, tensor: Tensor) -> Tensor:
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
        facts: the constants and sums in the layers' own code.
    """

    outputs: list[Hashable]
    inside_loops: set[int]
    facts: list[Fact]

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
    with np.errstate(over="ignore"):  # constants past 65504 are what the trace is for
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
        self.facts = list(_tensorflow_facts(graph, marks.owners))
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


def _promotes(source: str, target: str) -> bool:
    return source in NARROW_DTYPES and target == "float32"


def _operations() -> int:
    """The number of operations in the graph that is being traced."""
    import tensorflow as tf

    return len(tf.compat.v1.get_default_graph().get_operations())


_SUMS = ("Sum", "Mean", "Cumsum", "EuclideanNorm")
# So many operations behind an exponential are looked at.
_FARTHEST_SOURCE = 8

_EXPONENTIALS = ("Exp", "Expm1")
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D", "Conv3D")
# The lengths of their sums lie in the data.
_SUMS_OF_SEGMENTS = ("SegmentSum", "UnsortedSegmentSum")


def _tensorflow_facts(graph: "tf.Graph", owners: Mapping[int, int]) -> Iterator[Fact]:
    import tensorflow as tf

    for place, op in enumerate(graph.get_operations()):
        if place not in owners:
            continue
        if op.type == "Const" and op.outputs[0].dtype.is_floating:
            users = op.outputs[0].consumers()
            dtype = op.outputs[0].dtype.name
            if any(user.type == "Cast" for user in users):
                dtype = users[0].outputs[0].dtype.name
            value = tf.get_static_value(op.outputs[0])
            yield from of_constant(owners[place], dtype, np.asarray(value))
        elif op.type in _SUMS and op.inputs[0].dtype.is_floating:
            axes = tf.get_static_value(op.inputs[1])
            shape = op.inputs[0].shape
            known = axes is not None and shape.rank is not None
            sizes = [shape[int(axis)] for axis in np.ravel(axes)] if known else [None]
            number = math.inf if None in sizes else math.prod(filter(None, sizes))
            yield Fact(owners[place], SUM, op.inputs[0].dtype.name, number)
        elif _squares(op):
            yield Fact(owners[place], SQUARE, op.inputs[0].dtype.name)
        elif op.type in _PRODUCTS:
            yield Fact(owners[place], PRODUCT, op.inputs[0].dtype.name)
        elif op.type == "Cast" and _promotes(op.inputs[0].dtype.name, op.outputs[0].dtype.name):
            frames = ((frame.filename, frame.lineno) for frame in reversed(op.traceback))
            yield Fact(owners[place], PROMOTION, "float32", line=user_line(frames))
        elif op.type in _EXPONENTIALS and not fits(_tensorflow_value(op.inputs[0])):
            yield Fact(owners[place], EXPONENTIAL, op.inputs[0].dtype.name)
        elif op.type in _SUMS_OF_SEGMENTS and op.inputs[0].dtype.is_floating:
            yield Fact(owners[place], SUM, op.inputs[0].dtype.name, math.inf)


def _tensorflow_value(tensor: Tensor, steps: int = _FARTHEST_SOURCE) -> Value:
    """The operations behind a tensor, so many steps back."""
    import tensorflow as tf

    op = tensor.op
    sources = tuple(_tensorflow_value(one, steps - 1) for one in op.inputs) if steps else ()
    if op.type == "Mul" and op.inputs[0] is op.inputs[1]:
        sources = sources[:1] * 2
    known = tf.get_static_value(tensor) if not op.inputs or op.type == "Cast" else None
    kind = "max_over_axes" if op.type == "Max" else op.type.lower()
    if not steps:
        kind = ""
    power = tf.get_static_value(op.inputs[1]) if op.type == "Pow" else None
    return Value(
        kind,
        sources,
        None if known is None else np.asarray(known),
        float(np.ravel(power)[0]) if power is not None else 1.0,
    )


def _squares(op: "tf.Operation") -> bool:
    import tensorflow as tf

    if op.type == "Mul":
        return op.inputs[0] is op.inputs[1]
    if op.type == "Pow":
        exponent = tf.get_static_value(op.inputs[1])
        return exponent is not None and bool(np.all(np.asarray(exponent) >= 2))
    return op.type in ("Square", "SquaredDifference", "EuclideanNorm")


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
_BEGIN = "tfmp-begin/"
# Equations whose inner jaxpr runs exactly once, on their own inputs.
_CALLS = ("pjit", "jit", "closed_call", "checkpoint", "remat", "custom_jvp_call", "custom_vjp_call")


def _named(tensor: Tensor, layer: keras.Operation, prefix: str = _PREFIX) -> Tensor:
    from jax.ad_checkpoint import checkpoint_name

    marked = checkpoint_name(tensor, f"{prefix}{id(layer)}")
    if hasattr(tensor, "_keras_mask"):
        marked._keras_mask = tensor._keras_mask
    return marked


class _JaxGraph:
    def __init__(self, jaxpr: "Jaxpr", constants: Sequence[Tensor]) -> None:
        self.outputs: list[Hashable] = list(map(id, jaxpr.outvars))
        self.facts = _JaxFacts(jaxpr, constants).found
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
            elif _layer_of(equation, _BEGIN) is not None:
                self._connect(equation.outvars, Origin(None, sources, is_operation=False))
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


def _layer_of(equation: "JaxprEqn", prefix: str = _PREFIX) -> int | None:
    name = str(equation.params.get("name", "")) if equation.primitive.name == "name" else ""
    return int(name.removeprefix(prefix)) if name.startswith(prefix) else None


class _JaxFacts:
    """Reads a jaxpr in the order in which it was traced: layers begin and end in it."""

    def __init__(self, jaxpr: "Jaxpr", constants: Sequence[Tensor]) -> None:
        self.found: list[Fact] = []
        self._inside: list[int] = []
        self._values: dict[int, Value] = {}
        self._read(jaxpr, dict(zip(map(id, jaxpr.constvars), constants, strict=True)))

    def _read(self, jaxpr: "Jaxpr", constants: dict[int, Tensor]) -> None:
        sums: dict[int, float] = {}
        for equation in jaxpr.eqns:
            self._note(equation, constants)
            begun, ended = _layer_of(equation, _BEGIN), _layer_of(equation)
            if begun is not None and begun not in self._inside[-1:]:
                self._inside.append(begun)
            elif ended is not None and ended in self._inside:
                del self._inside[self._inside.index(ended) :]
            elif self._inside and begun is None:
                self._look(equation, constants, sums)
            for inner in _inner_jaxprs(equation):
                passed = list(zip(inner.invars, equation.invars, strict=False))
                known = {id(own): _value(outer, constants) for own, outer in passed}
                for own, outer in passed:
                    self._values[id(own)] = self._known(outer, constants)
                self._read(inner, {key: value for key, value in known.items() if value is not None})
                for outer, own in zip(equation.outvars, inner.outvars, strict=False):
                    self._values[id(outer)] = self._known(own, constants)

    def _known(self, argument: object, constants: dict[int, Tensor]) -> Value:
        value = _value(argument, constants)
        if value is not None:
            return Value(constant=np.asarray(value))
        return self._values.get(id(argument), Value())

    def _note(self, equation: "JaxprEqn", constants: dict[int, Tensor]) -> None:
        """Notes how a value came about, for the exponentials of it."""
        name = equation.primitive.name
        made = Value(
            {"max": "max_of_two", "min": "min_of_two"}.get(name, name),
            tuple(self._known(argument, constants) for argument in equation.invars),
            power=float(equation.params.get("y", 1)) if name == "integer_pow" else 1.0,
        )
        for variable in equation.outvars:
            self._values[id(variable)] = made

    def _look(
        self, equation: "JaxprEqn", constants: dict[int, Tensor], sums: dict[int, float]
    ) -> None:
        layer = self._inside[-1]
        if not equation.outvars:
            return
        dtype = str(getattr(equation.outvars[0].aval, "dtype", ""))
        if not _inner_jaxprs(equation):
            for argument in equation.invars:
                value = _value(argument, constants)
                if value is not None:
                    converts = equation.primitive.name == "convert_element_type"
                    used = dtype if converts else str(value.dtype)
                    self.found += of_constant(layer, used, np.asarray(value))
        if equation.primitive.name in ("reduce_sum", "cumsum", "scatter-add"):
            number = _summed(equation)
            self.found.append(Fact(layer, SUM, dtype, number))
            sums[id(equation.outvars[0])] = number
        elif equation.primitive.name in ("broadcast_in_dim", "reshape", "squeeze"):
            sums[id(equation.outvars[0])] = sums.get(id(equation.invars[0]), 0)
        elif equation.primitive.name in ("square", "integer_pow") or (
            equation.primitive.name == "mul" and equation.invars[0] is equation.invars[1]
        ):
            if equation.params.get("y", 2) >= 2:
                self.found.append(Fact(layer, SQUARE, dtype))
        elif equation.primitive.name in ("exp", "exp2", "expm1"):
            if not fits(self._known(equation.invars[0], constants)):
                self.found.append(Fact(layer, EXPONENTIAL, dtype))
        elif equation.primitive.name in ("dot_general", "conv_general_dilated"):
            self.found.append(Fact(layer, PRODUCT, str(equation.invars[0].aval.dtype)))
        elif equation.primitive.name == "convert_element_type":
            if _promotes(str(getattr(equation.invars[0].aval, "dtype", "")), dtype):
                traced = equation.source_info.traceback
                frames = traced.frames if traced is not None else ()
                line = user_line((frame.file_name, frame.line_num) for frame in frames)
                self.found.append(Fact(layer, PROMOTION, dtype, line=line))
            # JAX sums float16 in float32, and rounds the sum.
            number = sums.get(id(equation.invars[0]), 0)
            if number:
                self.found.append(Fact(layer, SUM, dtype, number))


def _value(argument: object, constants: dict[int, Tensor]) -> Tensor | None:
    value = getattr(argument, "val", constants.get(id(argument)))
    return value if value is None or hasattr(value, "dtype") else np.asarray(value)


def _summed(equation: "JaxprEqn") -> float:
    if equation.primitive.name == "scatter-add":
        return math.inf  # the lengths of its sums lie in the data
    shape = equation.invars[0].aval.shape
    axes = equation.params.get("axes", (equation.params.get("axis"),))
    sizes = [shape[axis] for axis in axes]
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else math.inf


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
    closed = jax.make_jaxpr(flat_function)(*specs)
    return _JaxGraph(closed.jaxpr, closed.consts)
