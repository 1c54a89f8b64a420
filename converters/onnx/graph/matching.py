"""The common parts of graph rewrites: finding a pattern, and putting nodes in its place."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.graph.building import new_constant
from tfmp.converters.onnx.graph.schema import is_float
from tfmp.converters.onnx.graph.traversal import UniqueNames, bodies_of, nodes_of
from tfmp.shared.numerics import FLOAT16, FloatFormat

Spared = Callable[[ir.Node], bool]

_SAME = ir.Shape([])  # stands for the shape of the first operand


class Pattern:
    """A float32 model in which patterns are found and replaced.

    Nodes that are spared, because the user named them, belong to no pattern.

    Attributes:
        model: the model, prepared by `fp16.prepare`.
        numbers: the format of 16 bits that the model is to compute in.
        opset: opset of the default domain.
        done: a sentence for each pattern that was replaced, and why.
    """

    def __init__(self, model: ir.Model, spared: Spared, numbers: FloatFormat = FLOAT16) -> None:
        self.model = model
        self.numbers = numbers
        self.opset = model.opset_imports.get("", 1)
        self.done: list[str] = []
        self._spared = spared
        self._listed: list[ir.Node] | None = None  # None where nodes have come or gone
        self._names: UniqueNames | None = None

    def nodes(self, *op_types: str) -> Iterator[ir.Node]:
        """The nodes of these ops, without nodes that are removed meanwhile."""
        if self._listed is None:
            self._listed = nodes_of(self.model.graph)
        for node in self._listed:
            if node.op_type in op_types and node.graph is not None and self._is(node, op_types):
                yield node

    def _unique(self, name: str) -> str:
        """A name that no value has yet."""
        if self._names is None:  # most models need none
            self._names = UniqueNames(self.model)
        return self._names(name)

    def made_by(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The node that makes a value, if it is one of these ops."""
        node = value.producer() if value is not None else None
        return node if node is not None and self._is(node, op_types) else None

    def readers(self, value: ir.Value, *op_types: str) -> list[ir.Node] | None:
        """All readers of a value, if each is one of these ops and the value is no output."""
        found = value.consumers()
        if value.is_graph_output() or not all(self._is(node, op_types) for node in found):
            return None
        return list(found)

    def reader(self, value: ir.Value, *op_types: str) -> ir.Node | None:
        """The only reader of a value, if it is one of these ops and reads it once."""
        found = self.readers(value, *op_types)
        return found[0] if found and len(value.uses()) == 1 else None

    def _is(self, node: ir.Node, op_types: Sequence[str]) -> bool:
        return (
            node.domain == ""
            and node.op_type in op_types
            and is_float(node.outputs[0])
            and not self._spared(node)
        )

    def constant(self, array: np.ndarray, name: str) -> ir.Value:
        """A new initializer."""
        return new_constant(self.model.graph, self._unique(name), array)

    def scalar(self, number: float, name: str) -> ir.Value:
        """A new float32 initializer of one number."""
        return self.constant(np.array(number, np.float32), name)

    def add(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        suffix: str,
        shape: ir.Shape | None = _SAME,
        **attributes: int | float | str | Sequence[int],
    ) -> ir.Value:
        """A new float32 node before another, which lends it its name and layer.

        Args:
            before: the node that the new node is put before.
            op_type: an op of the default domain.
            inputs: the new node's operands.
            suffix: text that is added to names.
            shape: the result's shape, None if it is unknown; by default the first operand's shape.
            **attributes: the new node's attributes.
        """
        node = ir.node(op_type, inputs, attributes)
        output = node.outputs[0]
        source = inputs[0]
        assert source is not None  # no op here leaves its first operand out
        name = before.outputs[0].name
        node.name, output.name = f"{before.name or name}_{suffix}", self._unique(f"{name}_{suffix}")
        output.type = ir.TensorType(ir.DataType.FLOAT)
        output.shape = source.shape if shape is _SAME else shape
        node.metadata_props.update(before.metadata_props)
        assert before.graph is not None
        before.graph.insert_before(before, node)
        self._listed = None
        return output

    def reduce(
        self,
        before: ir.Node,
        op_type: str,
        value: ir.Value,
        axes: Sequence[int],
        suffix: str,
        keepdims: bool = True,
    ) -> ir.Value:
        """A new reduction. Axes are an operand from opset 18 on, of ReduceSum from opset 13 on."""
        as_input = self.opset >= (13 if op_type == "ReduceSum" else 18)
        inputs = [value]
        attributes: dict[str, int | Sequence[int]] = {"keepdims": int(keepdims)}
        if as_input:
            name = f"{before.outputs[0].name}_{suffix}_axes"
            inputs.append(self.constant(np.array(axes, np.int64), name))
        else:
            attributes["axes"] = list(axes)
        shape = _reduced_shape(value, axes, keepdims)
        return self.add(before, op_type, inputs, suffix, shape, **attributes)

    def replace(self, old: ir.Value, new: ir.Value, what: str) -> None:
        """Lets a new value take over the readers and the name of one that it equals.

        Args:
            old: a value that a node makes.
            new: a value that a node of the same graph makes.
            what: the change and its reason, in words.
        """
        node = old.producer()
        assert node is not None
        self.done.append(f"{where(node)}: {what}")
        new.type, new.shape = old.type, new.shape if old.shape is None else old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name, new.name = new.name, old.name
        self._drop(node)

    def bypass(self, node: ir.Node, value: ir.Value, what: str) -> None:
        """Lets the readers of a node, which is no output, read another value instead."""
        node.outputs[0].replace_all_uses_with(value)
        self.done.append(f"{where(node)}: {what}")
        self._drop(node)

    def _drop(self, node: ir.Node) -> None:
        """Removes a node without readers, and nodes that only it read, so no pattern sees them."""
        graph = node.graph
        if graph is None or any(bodies_of(node)) or is_used(node):
            return
        makers = {value.producer() for value in node.inputs if value is not None} - {None}
        graph.remove(node, safe=True)
        self._listed = None
        for maker in makers:
            assert maker is not None
            self._drop(maker)


def where(node: ir.Node) -> str:
    """An op and its layer, for people."""
    return f"{node.op_type} in {node.metadata_props.get('tfmp.layer') or name_of(node)}"


def name_of(node: ir.Node) -> str:
    """A node's name; without one, the name of its first result, which every node has."""
    return node.name or str(node.outputs[0].name)


def is_used(node: ir.Node) -> bool:
    """Whether anything reads a node's results."""
    return any(value.uses() or value.is_graph_output() for value in node.outputs)


def private(nodes: Iterable[ir.Node], last: ir.Node) -> bool:
    """Whether only `nodes` and `last` read the results of `nodes`."""
    inside = {*nodes, last}
    return all(
        not value.is_graph_output() and inside.issuperset(value.consumers())
        for node in inside - {last}
        for value in node.outputs
    )


def array_of(value: ir.Value | None) -> np.ndarray | None:
    """The numbers of a constant that no caller can override."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def number_of(value: ir.Value | None) -> float | None:
    """The number of a float32 constant that has one element, and at most one axis.

    With more axes it could add axes to the value that it is combined with.
    """
    array = array_of(value) if is_float(value) else None
    alone = array is not None and array.size == 1 and array.ndim <= 1
    return float(array.reshape(())) if array is not None and alone else None


def is_number(value: ir.Value | None, number: float, tolerance: float = 1e-4) -> bool:
    """Whether a value is this constant; exporters write constants with few digits."""
    found = number_of(value)
    return found is not None and math.isclose(found, number, rel_tol=tolerance)


def operands(node: ir.Node) -> list[tuple[ir.Value, ir.Value]]:
    """Both operands of a node in both orders; only the written one where order matters."""
    first, second = node.inputs[:2]
    assert first is not None
    assert second is not None
    both = [(first, second), (second, first)]
    return both if node.op_type in ("Add", "Mul", "Max", "Min") else both[:1]


def with_constant(node: ir.Node) -> tuple[ir.Value, float] | None:
    """The operand and the number of an op between a value and a constant."""
    if len(node.inputs) != 2:
        return None
    for value, other in operands(node):
        number = number_of(other)
        if number is not None:
            return value, number
    return None


@dataclass(frozen=True)
class Reduction:
    """The facts of a reduction.

    Attributes:
        value: its operand, of known rank.
        axes: the reduced axes, not negative and in order.
        keepdims: whether reduced axes stay, with size 1.
        count: the number of elements that become one; None if it is not static.
    """

    value: ir.Value
    axes: tuple[int, ...]
    keepdims: bool
    count: int | None


def reduction_of(node: ir.Node) -> Reduction | None:
    """The facts of a reduction node; None if its axes or its operand's rank are unknown."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    rank = len(value.shape)
    if "axes" in node.attributes:
        axes: Sequence[int] | None = node.attributes["axes"].as_ints()
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        array = array_of(node.inputs[1])
        if array is None:
            return None
        axes = [int(axis) for axis in array.reshape(-1)]
    else:
        axes = []
    if not axes:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        axes = range(rank)
    found = tuple(sorted(axis % rank for axis in axes))
    sizes = static(value, found)
    count = math.prod(sizes) if sizes is not None else None
    return Reduction(value, found, bool(node.attributes.get_int("keepdims", 1)), count)


def static(value: ir.Value, axes: Iterable[int]) -> list[int] | None:
    """The sizes of a value of known rank along axes; None unless all are static."""
    assert value.shape is not None
    sizes = [value.shape[axis] for axis in axes]
    known = [size for size in sizes if isinstance(size, int)]
    return known if len(known) == len(sizes) else None


def _reduced_shape(value: ir.Value, axes: Sequence[int], keepdims: bool) -> ir.Shape | None:
    if value.shape is None:
        return None
    sizes = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    if not keepdims:
        sizes = [size for axis, size in enumerate(sizes) if axis not in axes]
    return ir.Shape(sizes)
