"""Traces a function on TensorFlow: a graph of operations."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import tree

from tfmp.precision.tracing.exponents import Value, fits, high_power
from tfmp.precision.tracing.hazards import (
    EXPONENTIAL,
    FACTORS,
    POWER,
    PRODUCT,
    PROMOTION,
    SQUARE,
    SUM,
    TANH,
    Fact,
    of_constant,
)
from tfmp.precision.tracing.traced_graph import (
    Graph,
    Inputs,
    Origin,
    Traceable,
    over_tensors,
    promotes,
)
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
    """

    def __init__(self) -> None:
        self.layers: dict[int, list[int]] = {}
        self.owners: dict[int, int] = {}
        self.alive: list[Tensor] = []

    def add(self, layer: keras.Operation, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results."""

        def mark(tensor: Tensor) -> Tensor:
            self.alive.append(tensor)
            self.layers.setdefault(id(tensor), []).append(id(layer))
            return tensor

        return over_tensors(mark, outputs)

    def begin(self, layer: keras.Operation, arguments: TensorTree) -> tuple[TensorTree, int]:
        """The place in the graph where a layer's own code begins."""
        return arguments, _operations()

    def end(self, layer: keras.Operation, begin: int) -> None:
        """Marks the operations since a layer's begin that no layer in it has made."""
        for place in range(begin, _operations()):
            self.owners.setdefault(place, id(layer))


def trace_tensorflow(function: Traceable, inputs: Inputs, marks: TensorFlowMarks) -> Graph:
    """A function's graph of operations; a tensor that a layer returned is known by its id.

    Args:
        function: called once, with traced tensors; it marks some of them.
        inputs: the shapes and dtypes of these tensors.
        marks: where the function marks them.
    """
    import tensorflow as tf

    with tf.__internal__.FuncGraph("tfmp_dry_run").as_default() as graph:
        keywords, positional = tree.map_structure(
            lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape),
            (inputs.keywords, inputs.positional),
        )
        outputs = tree.flatten(function(keywords, positional))
    return _Graph(filter(tf.is_tensor, outputs), marks, graph)


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
        self.facts = list(_facts(graph, marks.owners))
        self.outputs: list[Hashable] = [self._all_of(tensor) for tensor in outputs]
        self.inside_loops = {
            layer
            for tensor in marks.alive
            if tensor.graph is not graph
            for layer in self._marks[id(tensor)]
        }

    def _all_of(self, tensor: Tensor) -> _MarkedTensor:
        return _MarkedTensor(tensor, id(tensor), len(self._marks.get(id(tensor), ())))

    def origin(self, tensor: Hashable) -> Origin:
        assert isinstance(tensor, _MarkedTensor)
        if tensor.left:
            layer = self._marks[tensor.key][tensor.left - 1]
            rest = _MarkedTensor(tensor.tensor, tensor.key, tensor.left - 1)
            return Origin(layer, (rest,))
        return Origin(None, tuple(map(self._all_of, tensor.tensor.op.inputs)))


def _operations() -> int:
    """The number of operations in the graph that is being traced."""
    import tensorflow as tf

    return len(tf.compat.v1.get_default_graph().get_operations())


_SUMS = ("Sum", "Mean", "Cumsum", "EuclideanNorm")
_PRODUCTS_OF_MANY = ("Prod", "Cumprod")
_POWERS = ("Pow", "Square", "Mul")
# So many operations behind an exponential are looked at.
_FARTHEST_SOURCE = 8
_FARTHEST_FACTOR = 4  # and so many behind a product

_EXPONENTIALS = ("Exp", "Expm1")
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D", "Conv3D")
# The lengths of their sums lie in the data.
_SUMS_OF_SEGMENTS = ("SegmentSum", "UnsortedSegmentSum")


def _facts(graph: "tf.Graph", owners: Mapping[int, int]) -> Iterator[Fact]:
    import tensorflow as tf

    for place, op in enumerate(graph.get_operations()):
        if place not in owners:
            continue
        if op.type in _POWERS and op.outputs[0].dtype.is_floating:
            power = high_power(_value(op.outputs[0], _FARTHEST_FACTOR))
            if power is not None:
                yield Fact(owners[place], POWER, op.outputs[0].dtype.name, power)
        if op.type == "Const" and op.outputs[0].dtype.is_floating:
            users = op.outputs[0].consumers()
            dtype = op.outputs[0].dtype.name
            if any(user.type == "Cast" for user in users):
                dtype = users[0].outputs[0].dtype.name
            value = tf.get_static_value(op.outputs[0])
            yield from of_constant(owners[place], dtype, np.asarray(value))
        elif op.type in _SUMS and op.inputs[0].dtype.is_floating:
            yield Fact(owners[place], SUM, op.inputs[0].dtype.name, _reduced(op))
        elif op.type in _PRODUCTS_OF_MANY and op.inputs[0].dtype.is_floating:
            yield Fact(owners[place], FACTORS, op.inputs[0].dtype.name, _reduced(op))
        elif op.type == "Tanh":
            yield Fact(owners[place], TANH, op.inputs[0].dtype.name)
        elif _squares(op):
            yield Fact(owners[place], SQUARE, op.inputs[0].dtype.name)
        elif op.type in _PRODUCTS:
            yield Fact(owners[place], PRODUCT, op.inputs[0].dtype.name)
        elif op.type == "Cast" and promotes(op.inputs[0].dtype.name, op.outputs[0].dtype.name):
            frames = ((frame.filename, frame.lineno) for frame in reversed(op.traceback))
            yield Fact(owners[place], PROMOTION, "float32", line=user_line(frames))
        elif op.type in _EXPONENTIALS and not fits(_value(op.inputs[0])):
            yield Fact(owners[place], EXPONENTIAL, op.inputs[0].dtype.name)
        elif op.type in _SUMS_OF_SEGMENTS and op.inputs[0].dtype.is_floating:
            yield Fact(owners[place], SUM, op.inputs[0].dtype.name, math.inf)


def _reduced(op: "tf.Operation") -> float:
    """The number of values that each result of a reduction comes from; infinity if unknown."""
    import tensorflow as tf

    axes = tf.get_static_value(op.inputs[1])
    shape = op.inputs[0].shape
    if axes is None or shape.rank is None:
        return math.inf
    sizes = [shape[int(axis)] for axis in np.ravel(axes)]
    return math.inf if None in sizes else math.prod(filter(None, sizes))


def _value(tensor: Tensor, steps: int = _FARTHEST_SOURCE) -> Value:
    """The operations behind a tensor, so many steps back."""
    import tensorflow as tf

    op = tensor.op
    sources = tuple(_value(one, steps - 1) for one in op.inputs) if steps else ()
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
        id(tensor),
    )


def _squares(op: "tf.Operation") -> bool:
    import tensorflow as tf

    if op.type == "Mul":
        return op.inputs[0] is op.inputs[1]
    if op.type == "Pow":
        exponent = tf.get_static_value(op.inputs[1])
        return exponent is not None and bool(np.all(np.asarray(exponent) >= 2))
    return op.type in ("Square", "SquaredDifference", "EuclideanNorm")
