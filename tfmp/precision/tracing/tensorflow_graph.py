"""Traces a function on TensorFlow: a graph of operations."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import tree

from tfmp.precision.tracing.exponents import may_overflow
from tfmp.precision.tracing.hazards import (
    FACTORS,
    PRODUCT,
    PROMOTION,
    SUM,
    Fact,
    of_argument,
    of_constant,
    of_result,
    of_tanh,
    of_value,
)
from tfmp.precision.tracing.ranges import power_of_all, value_of
from tfmp.precision.tracing.traced_graph import (
    Graph,
    Inputs,
    Origin,
    Traceable,
    over_tensors,
    promotes,
)
from tfmp.precision.tracing.values import CONTRACTIONS, FROM_INTEGERS, Value
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.packages import user_line

if TYPE_CHECKING:
    import tensorflow as tf


class TensorFlowMarks:
    """The `Marks` of a graph, beside it: tensors and operations stay as they are.

    Attributes:
        layers: ids of the layers that returned a tensor, by its id.
        owners: ids of the layers whose own code made an operation, by its place in the graph.
        alive: the marked tensors: an id is only good while its tensor lives.
        graph: the graph of the trace; loops and branches in it have graphs of their own.
    """

    def __init__(self) -> None:
        self.layers: dict[int, list[int]] = {}
        self.readers: dict[int, list[int]] = {}
        self.owners: dict[int, int] = {}
        self.alive: list[Tensor] = []
        self.graph: tf.Graph | None = None

    def add(self, layer: keras.Operation | keras.Variable, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results."""

        def mark(tensor: Tensor) -> Tensor:
            if not _is_traced(tensor):
                return tensor
            self.alive.append(tensor)
            self.layers.setdefault(id(tensor), []).append(id(layer))
            return tensor

        return over_tensors(mark, outputs)

    def begin(self, layer: keras.Operation, arguments: TensorTree) -> tuple[TensorTree, int]:
        """The place in the graph where a layer's own code begins."""

        def mark(tensor: Tensor) -> Tensor:
            if not _is_traced(tensor):
                return tensor
            self.alive.append(tensor)
            self.readers.setdefault(id(tensor), []).append(id(layer))
            return tensor

        over_tensors(mark, arguments)
        return arguments, self._operations()

    def end(self, layer: keras.Operation, begin: int) -> None:
        """Marks the operations since a layer's begin that no layer in it has made."""
        for place in range(begin, self._operations()):
            self.owners.setdefault(place, id(layer))

    def _operations(self) -> int:
        """The number of operations in the graph; within a loop there are none."""
        import tensorflow as tf

        is_inside = tf.compat.v1.get_default_graph() is not self.graph
        return 0 if self.graph is None or is_inside else len(self.graph.get_operations())


def trace_tensorflow(function: Traceable, inputs: Inputs, marks: TensorFlowMarks) -> Graph:
    """A function's graph of operations; a tensor that a layer returned is known by its id.

    Args:
        function: called once, with traced tensors; it marks some of them.
        inputs: the shapes and dtypes of these tensors.
        marks: where the function marks them.
    """
    import tensorflow as tf

    with tf.__internal__.FuncGraph("tfmp_dry_run").as_default() as graph:
        marks.graph = graph
        keywords, positional = tree.map_structure(
            # A batch may have nothing in some places.
            lambda spec: None if spec is None else _placeholder(spec, inputs.size),
            (inputs.keywords, inputs.positional),
        )
        outputs = tree.flatten(function(keywords, positional))
    return _Graph(filter(_is_traced, outputs), marks, graph)


def _placeholder(spec: keras.KerasTensor, size: int | None) -> Tensor:
    import tensorflow as tf

    shape = [size if length is None else length for length in spec.shape]
    return tf.compat.v1.placeholder(spec.dtype, shape)


def _is_traced(value: object) -> bool:
    """Whether a value is in a graph: a tensor that a model holds, such as a table, is not."""
    import tensorflow as tf

    return tf.is_tensor(value) and not isinstance(value, tf.__internal__.EagerTensor)


@dataclass(frozen=True)
class _MarkedTensor:
    """A tensor and the layers that returned it; `left` of them are still to be walked through."""

    tensor: Tensor = field(compare=False)
    key: int
    left: int


class _Graph:
    def __init__(
        self, outputs: Iterable[Tensor], marks: TensorFlowMarks, graph: "tf.Graph"
    ) -> None:
        self._marks = marks.layers
        self.facts = list(_facts(graph, marks.owners, marks.layers, marks.readers))
        self.outputs: list[Hashable] = [self._all_of(tensor) for tensor in outputs]
        self._layers_of: dict[int, set[int]] = {}
        for tensor in marks.alive:
            self._layers_of.setdefault(id(tensor.graph), set()).update(
                self._marks.get(id(tensor), ())
            )

    def _all_of(self, tensor: Tensor) -> _MarkedTensor:
        return _MarkedTensor(tensor, id(tensor), len(self._marks.get(id(tensor), ())))

    def origin(self, tensor: Hashable) -> Origin:
        assert isinstance(tensor, _MarkedTensor)
        if tensor.left:
            layer = self._marks[tensor.key][tensor.left - 1]
            rest = _MarkedTensor(tensor.tensor, tensor.key, tensor.left - 1)
            return Origin(layer, (rest,))
        op = tensor.tensor.op
        if op.type in _ONLY_SHAPES:
            return Origin(None, ())
        return Origin(None, tuple(map(self._all_of, op.inputs)), inside=frozenset(self._inside(op)))

    def _inside(self, op: "tf.Operation") -> set[int]:
        """The layers that ran inside an operation, by id."""
        found: set[int] = set()
        for inner in _inner_graphs(op):
            found |= self._layers_of.get(id(inner), set())
            for nested in inner.get_operations():
                found |= self._inside(nested)
        return found


_SUMS = ("Sum", "Mean", "Cumsum", "EuclideanNorm")
_PRODUCTS_OF_MANY = ("Prod", "Cumprod")
# They read no values.
_ONLY_SHAPES = ("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike")
# The attributes in which operations have the functions that they call.
_FUNCTIONS = {
    "While": ("body",),
    "If": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "PartitionedCall": ("f",),
}
# Their names are those of other operations on JAX.
_KINDS = {"Max": "max_over_axes", "Min": "min_over_axes"}
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D", "Conv3D")
# The lengths of their sums lie in the data.
_SUMS_OF_SEGMENTS = ("SegmentSum", "UnsortedSegmentSum")


def _facts(
    graph: "tf.Graph",
    owners: Mapping[int, int],
    results: Mapping[int, list[int]],
    readers: Mapping[int, list[int]],
) -> Iterator[Fact]:
    """The facts of a graph's operations, and of those in its loops and branches.

    Args:
        graph: traced.
        owners: ids of the layers whose code made the operations, by their places in the graph.
        results: ids of the layers that returned a tensor, by its id.
        readers: ids of the layers that got a tensor, by its id.
    """
    import tensorflow as tf

    values: dict[int, Value] = {}
    for place, op in enumerate(graph.get_operations()):
        owner = owners.get(place)
        made = _value(op, values, owner)
        # The parts of a split are not one and the same value.
        values.update((id(tensor), replace(made)) for tensor in op.outputs[1:])
        values.update((id(tensor), made) for tensor in op.outputs[:1])
        for tensor in op.outputs:
            for layer in results.get(id(tensor), ()):
                yield from of_result(layer, made)
            for layer in readers.get(id(tensor), ()):
                yield from of_argument(layer, made)
        if owner is None:
            continue
        for inner in _inner_graphs(op):
            own = dict.fromkeys(range(len(inner.get_operations())), owner)
            yield from _facts(inner, own, results, readers)
        if op.outputs and op.outputs[0].dtype.is_floating:
            yield from of_value(owner, op.outputs[0].dtype.name, made)
        if op.type == "Const" and op.outputs[0].dtype.is_floating:
            users = op.outputs[0].consumers()
            dtype = op.outputs[0].dtype.name
            if any(user.type == "Cast" for user in users):
                dtype = users[0].outputs[0].dtype.name
            value = tf.get_static_value(op.outputs[0])
            yield from of_constant(owner, dtype, np.asarray(value))
        elif op.type in _SUMS and op.inputs[0].dtype.is_floating and may_overflow(made):
            bound = made.sources[0].bound
            yield Fact(owner, SUM, op.inputs[0].dtype.name, _reduced(op), bound=bound)
        elif op.type in _PRODUCTS_OF_MANY and op.inputs[0].dtype.is_floating:
            yield Fact(owner, FACTORS, op.inputs[0].dtype.name, _reduced(op))
        elif op.type == "Tanh":
            yield of_tanh(owner, op.inputs[0].dtype.name, made)
        elif op.type in _PRODUCTS:
            yield Fact(owner, PRODUCT, op.inputs[0].dtype.name)
        elif op.type == "Cast" and promotes(op.inputs[0].dtype.name, op.outputs[0].dtype.name):
            frames = ((frame.filename, frame.lineno) for frame in reversed(op.traceback))
            yield Fact(owner, PROMOTION, "float32", line=user_line(frames))
        elif op.type in _SUMS_OF_SEGMENTS and op.inputs[0].dtype.is_floating:
            yield Fact(owner, SUM, op.inputs[0].dtype.name, math.inf)


def _inner_graphs(op: "tf.Operation") -> "Iterator[tf.Graph]":
    """The graphs of the functions that an operation calls: bodies of loops, branches."""
    for name in _FUNCTIONS.get(op.type.removeprefix("Stateless").removeprefix("Stateful"), ()):
        called = op.get_attr(name)
        for function in called if isinstance(called, list) else [called]:
            # A function of TensorFlow 1, as in its `ctc_loss`, keeps no graph.
            graph = getattr(op.graph._get_function(function.name), "graph", None)
            if graph is not None:
                yield graph


def _reduced(op: "tf.Operation") -> float:
    """The number of values that each result of a reduction comes from; infinity if unknown."""
    import tensorflow as tf

    axes = tf.get_static_value(op.inputs[1])
    shape = op.inputs[0].shape
    if axes is None or shape.rank is None:
        return math.inf
    sizes = [shape[int(axis)] for axis in np.ravel(axes)]
    return math.inf if None in sizes else math.prod(filter(None, sizes))


def _value(op: "tf.Operation", values: Mapping[int, Value], owner: int | None) -> Value:
    """The value of an operation's results, by the values of its operands."""
    import tensorflow as tf

    if not op.outputs:
        return Value()
    operands = op.inputs[1:] if op.type == "Split" else op.inputs  # its first one is the axis
    operands = operands[:-1] if op.type == "ConcatV2" else operands
    sources = tuple(values.get(id(operand), Value()) for operand in operands)
    is_known = all(one.constant is not None for one in sources)
    is_known = is_known and (not sources or op.type in ("Cast", "Range"))
    known = tf.get_static_value(op.outputs[0]) if is_known else None
    power = power_of_all(tf.get_static_value(op.inputs[1])) if op.type == "Pow" else None
    return value_of(
        FROM_INTEGERS if _converts_integers(op) else _KINDS.get(op.type, op.type.lower()),
        sources,
        None if known is None else np.asarray(known),
        power,
        _terms(op),
        owner,
        op.outputs[0].dtype.name,
    )


def _converts_integers(op: "tf.Operation") -> bool:
    if op.type != "Cast" or not (op.outputs[0].dtype.is_floating and op.inputs[0].dtype.is_integer):
        return False
    return op.inputs[0].dtype.size > 1  # a byte has no number past 255


def _terms(op: "tf.Operation") -> float:
    """The number of values in each sum of a reduction or product; infinity if it is unknown."""
    if op.type in _SUMS:
        return _reduced(op)
    if op.type.lower() not in CONTRACTIONS or op.inputs[0].shape.rank is None:
        return math.inf
    if op.type == "Einsum":
        operands, result = op.get_attr("equation").decode().split("->")
        axes = operands.split(",")[0]
        unnamed = op.inputs[0].shape.rank - len(axes.replace("...", ""))
        axes = axes.replace("...", "." * unnamed)
        named = zip(axes, op.inputs[0].shape, strict=True)
        summed = [size for name, size in named if name not in result]
    else:
        adjoint = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        summed = [op.inputs[0].shape[-2 if adjoint else -1]]
    return math.inf if None in summed else math.prod(summed)
