"""Builds sums in ONNX that are held in 16 bits: blocks of terms added in FP32, then rounded.

    total = 0
    for each block of terms: total = half(total + fp32 sum of the block)

An ONNX Scan over the blocks computes it; ONNX Runtime runs that at a block per iteration.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from tfmp.converters.onnx.graph import FP16, FP32, new_constant

# What an attribute of a node may be.
Attribute: TypeAlias = int | float | str | Sequence[int] | ir.Graph

# Before opset 13 these took their last input as an attribute.
_ONCE_ATTRIBUTES = {"Squeeze": "axes", "Unsqueeze": "axes", "Split": "split"}

_END = np.iinfo(np.int64).max


class SumBuilder:
    """Puts nodes before one node, and builds sums in FP16 or BF16.

    Attributes:
        block: number of terms that are added in FP32 before the total is rounded.
        half: the type that totals are rounded to.
    """

    def __init__(
        self,
        model: ir.Model,
        anchor: ir.Node | None,
        block: int,
        prefix: str,
        half: ir.DataType = FP16,
    ) -> None:
        """Builds nothing yet.

        Args:
            model: the model; constants become initializers of its main graph, which every subgraph
                sees.
            anchor: the node that new nodes are put before; None to put none.
            block: number of terms that are added in FP32 before the total is rounded.
            prefix: beginning of the names of all new values and nodes, and of no others.
            half: the type that totals are rounded to.
        """
        self._model, self._anchor, self.block, self._prefix = model, anchor, block, prefix
        self.half = half
        self._count = 0

    @property
    def opset(self) -> int:
        """Opset of the default domain."""
        return self._model.opset_imports.get("", 1)

    def op(
        self, op_type: str, *inputs: ir.Value, dtype: ir.DataType = FP32, **attributes: Attribute
    ) -> ir.Value:
        """A new node's only output."""
        return self._put(self.node(op_type, inputs, [dtype], attributes)).outputs[0]

    def outputs(
        self, op_type: str, inputs: Sequence[ir.Value], count: int, **attributes: Attribute
    ) -> Sequence[ir.Value]:
        """All float32 outputs of a new node."""
        return self._put(self.node(op_type, inputs, [FP32] * count, attributes)).outputs

    def floats(self, values: ArrayLike) -> ir.Value:
        """A float32 constant."""
        return self._constant(np.asarray(values, np.float32))

    def integers(self, values: ArrayLike) -> ir.Value:
        """An int64 constant."""
        return self._constant(np.asarray(values, np.int64))

    def sizes(self, value: ir.Value, start: int, stop: int) -> ir.Value:
        """Part of the shape of `value`, as it is at run time."""
        shape = self.op("Shape", value, dtype=ir.DataType.INT64)
        bounds = (self.integers([start]), self.integers([stop]))
        return self.op("Slice", shape, *bounds, dtype=ir.DataType.INT64)

    def reshape(self, value: ir.Value, *parts: Sequence[int] | ir.Value) -> ir.Value:
        """`value` in the shape that the parts make up; 0 keeps the size at that position."""
        shapes = [p if isinstance(p, ir.Value) else self.integers(list(p)) for p in parts]
        shape = shapes[0]
        if len(shapes) > 1:
            shape = self.op("Concat", *shapes, dtype=ir.DataType.INT64, axis=0)
        return self.op("Reshape", value, shape)

    def transpose(self, value: ir.Value, order: Sequence[int]) -> ir.Value:
        """`value` with its axes in another order; `value` itself if it has that order."""
        if list(order) == list(range(len(order))):
            return value
        return self.op("Transpose", value, perm=list(order))

    def rounded(self, value: ir.Value) -> ir.Value:
        """`value` rounded to 16 bits."""
        down, up = self.casts(value)
        self._put(down)
        return self._put(up).outputs[0]

    def product(
        self,
        a: ir.Value,
        b: ir.Value,
        ranks: tuple[int, int],
        depth: int | None,
        before: ir.Value | None = None,
        equation: str = "",
    ) -> ir.Value:
        """a (..., M, K) times b (..., K, N), summed over K in FP16.

        Args:
            a: a float32 value that holds FP16 numbers, like `b`.
            b: see `a`.
            ranks: ranks of `a` and `b`, at least 2 each.
            depth: K, if it is known before the run.
            before: the total so far, if this is the rest of a longer sum.
            equation: of an Einsum in place of the matrix product, K being the last axis of both.
        """
        kind = "Einsum" if equation else "MatMul"
        attributes = {"equation": equation} if equation else {}
        left = self.blocks(a, ranks[0], ranks[0] - 1, depth)
        right = self.blocks(b, ranks[1], ranks[1] - (1 if equation else 2), depth)
        if before is None:
            before = self.zeros_like(
                self.op(kind, self.first(left), self.first(right), **attributes)
            )
        terms = [self.value("block", FP32) for _ in (a, b)]
        return self._scan(before, self.node(kind, terms, [FP32], attributes), left, right)

    def sum_last(self, value: ir.Value, rank: int, depth: int | None) -> ir.Value:
        """The sum over the last axis in FP16; the axis stays, with size 1."""
        blocks = self.blocks(value, rank, rank - 1, depth)
        sums = self.op("MatMul", blocks, self.floats(np.ones((self.block, 1))))
        return self._scan(self.zeros_like(self.first(sums)), None, sums)

    def sum_lanes(self, value: ir.Value, rank: int, depth: int | None, lanes: int) -> ir.Value:
        """Sums over the last axis in FP16, each of every so manieth term: (..., lanes)."""
        blocks = self.blocks(value, rank, rank - 1, depth, lanes)
        return self._scan(self.zeros_like(self.first(blocks)), None, blocks)

    def peak(self, value: ir.Value, axis: int) -> ir.Value:
        """The largest numbers along an axis, which stays with size 1."""
        if self.opset >= 18:
            return self.op("ReduceMax", value, self.integers([axis]))
        return self.op("ReduceMax", value, axes=[axis])

    def mean(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """The mean over axes in FP32, which stay with size 1."""
        if self.opset >= 18:
            return self.op("ReduceMean", value, self.integers(list(axes)))
        return self.op("ReduceMean", value, axes=list(axes))

    def blocks(
        self, value: ir.Value, rank: int, axis: int, depth: int | None, size: int | None = None
    ) -> ir.Value:
        """Splits an axis into blocks, the last filled with zeros; their number comes first.

        Args:
            value: of float32.
            rank: of `value`.
            axis: not negative.
            depth: its size, if it is known before the run.
            size: of a block; None for `block`.
        """
        size = self.block if size is None else size
        value = self._filled(value, rank, axis, depth, size)
        shape: list[Sequence[int] | ir.Value] = [[0] * axis + [-1, size]]
        if axis + 1 < rank:
            shape.append(self.sizes(value, axis + 1, rank))
        split = self.reshape(value, *shape)
        others = [index for index in range(rank + 1) if index != axis]
        return self.transpose(split, [axis, *others])

    def _filled(
        self, value: ir.Value, rank: int, axis: int, depth: int | None, size: int
    ) -> ir.Value:
        if depth is not None and depth % size == 0:
            return value
        if depth is not None:
            missing = self.integers([-depth % size])
        else:
            count = self.sizes(value, axis, axis + 1)
            negative = self.op("Neg", count, dtype=ir.DataType.INT64)
            block = self.integers([size])
            missing = self.op("Mod", negative, block, dtype=ir.DataType.INT64)
        before, after = self.integers([0] * (rank + axis)), [0] * (rank - axis - 1)
        parts = [before, missing, *([self.integers(after)] if after else [])]
        return self.op("Pad", value, self.op("Concat", *parts, dtype=ir.DataType.INT64, axis=0))

    def first(self, blocks: ir.Value) -> ir.Value:
        """The first of blocks."""
        return self.op("Gather", blocks, self._constant(np.array(0, np.int64)), axis=0)

    def zeros_like(self, value: ir.Value) -> ir.Value:
        """Zeros in the shape of a value."""
        shape = self.op("Shape", value, dtype=ir.DataType.INT64)
        return self.op("ConstantOfShape", shape)

    def _scan(self, zeros: ir.Value, product: ir.Node | None, *blocks: ir.Value) -> ir.Value:
        """Adds blocks, or products of two of them, to a total that is rounded."""
        total = self.value("total", FP32)
        terms = list(product.inputs) if product else [self.value("block", FP32)]
        added = product.outputs[0] if product else terms[0]
        addition = self.node("Add", [total, added], [FP32], {})
        nodes = [addition, *self.casts(addition.outputs[0])]
        outputs = [nodes[-1].outputs[0]]
        nodes = [product, *nodes] if product else nodes
        body = ir.Graph([total, *terms], outputs, nodes=nodes, name=self.name("body"))
        return self.op("Scan", zeros, *blocks, body=body, num_scan_inputs=len(blocks))

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value],
        dtypes: Sequence[ir.DataType],
        attributes: Mapping[str, Attribute],
    ) -> ir.Node:
        """A node that is in no graph yet, such as one for a body."""
        if self.opset < 13 and op_type in _ONCE_ATTRIBUTES and len(inputs) > 1:
            known = inputs[-1].const_value
            assert known is not None  # made by `integers`
            attributes = {**attributes, _ONCE_ATTRIBUTES[op_type]: known.numpy().tolist()}
            inputs = inputs[:-1]
        outputs = [self.value(op_type, dtype) for dtype in dtypes]
        name = f"node_{outputs[0].name}"
        return ir.node(op_type, inputs, attributes, outputs=outputs, name=name)

    def casts(self, value: ir.Value) -> list[ir.Node]:
        """Two nodes for a body; the last one gives `value` rounded to 16 bits."""
        down = self.node("Cast", [value], [self.half], {"to": self.half.value})
        return [down, self.node("Cast", down.outputs, [FP32], {"to": FP32.value})]

    def value(self, hint: str, dtype: ir.DataType) -> ir.Value:
        """A value with a name of its own, such as an input of a body."""
        return ir.Value(name=self.name(hint), type=ir.TensorType(dtype))

    def name(self, hint: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{self._prefix}_{hint}_{self._count}"

    def _put(self, node: ir.Node) -> ir.Node:
        assert self._anchor is not None
        graph = self._anchor.graph
        assert graph is not None
        graph.insert_before(self._anchor, node)
        return node

    def _constant(self, array: np.ndarray) -> ir.Value:
        return new_constant(self._model.graph, self.name("constant"), array)


def slice_end(distance: int) -> int:
    """The end of a slice that leaves out the last `distance` elements of an axis."""
    return -distance if distance else _END
