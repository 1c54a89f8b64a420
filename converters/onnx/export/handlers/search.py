"""Bins, tables, scattering, and the sign bit that TensorFlow's argmax looks at."""

import numpy as np
from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.tensor import OneHot as TensorOneHot, ScatterND

from tfmp.converters.onnx.export.handlers.building import NUMPY, Builder, handler, shape_of


@handler("Bucketize", opset=16)
def bucketize(b: Builder, node: Node) -> None:
    """The number of boundaries at or below each value."""
    boundaries = b.const(list(node.get_attr("boundaries").floats), "float32")
    values = b.unsqueeze(b.cast(node.input[0], TensorProto.FLOAT), -1)
    beyond = b.cast(b.op("GreaterOrEqual", values, boundaries), TensorProto.INT32)
    b.finish("Identity", b.sum(beyond, -1))


@handler("LookupTableFindV2", opset=13)
def lookup(b: Builder, node: Node) -> None:
    """The value beside a key in a table; tf2onnx knows tables with strings on one side only."""
    table = node.inputs[0]
    keys, values = b.tables[table.get_attr_value("shared_name")]
    default = node.inputs[2]
    if not default.is_const():
        raise ValueError("a lookup needs a constant default")
    found = b.op(
        "LabelEncoder",
        b.cast(node.input[1], TensorProto.INT64),
        domain="ai.onnx.ml",
        keys_int64s=keys.astype(np.int64),
        values_int64s=values.astype(np.int64),
        default_int64=int(default.get_tensor_value(as_list=False)),
    )
    b.finish("Cast", found, to=b.graph.get_dtype(node.output[0]))
    b.graph.remove_node(table.name)


@handler("InTopKV2", opset=13)
def in_top_k(b: Builder, node: Node) -> None:
    """Whether fewer than k scores of a row beat the score of its target."""
    scores, targets, k = node.input
    own = b.op("GatherElements", scores, b.unsqueeze(targets, -1), axis=-1)
    better = b.sum(b.cast(b.op("Greater", scores, own), TensorProto.INT32), -1)
    b.finish("Less", better, b.cast(k, TensorProto.INT32))


_SIGN_MASK = np.iinfo(np.int32).min


@handler("Bitcast", opset=9)
def sign_bit(b: Builder, node: Node) -> None:
    """The bits of a float as an integer, where only its sign bit is read.

    Keras takes argmax, argmin and signbit through it, to tell -0 from 0. ONNX has no such op below
    opset 26; 1 / x is negative for just the negative values and -0.
    """
    x = node.input[0]
    readers = b.graph.find_output_consumers(node.output[0])
    masked = all(
        reader.type == "BitwiseAnd"
        and any(value.is_const() and _is_mask(value) for value in reader.inputs)
        for reader in readers
    )
    if b.graph.get_dtype(x) != TensorProto.FLOAT or not masked:
        raise ValueError("bits of a float have an ONNX form only where its sign is read")
    # 1 / -inf is -0, which is not below zero: infinities are looked at as they are.
    negative = b.op("Less", x, b.const(0.0))
    negative_zero = b.op("Less", b.op("Reciprocal", x), b.const(0.0))
    sign = b.cast(b.op("Or", negative, negative_zero), TensorProto.INT32)
    b.finish("Mul", sign, b.const(_SIGN_MASK, np.int32))


def _is_mask(value: Node) -> bool:
    return value.get_tensor_value(as_list=False).reshape(-1).tolist() == [_SIGN_MASK]


@tf_op("OneHot")
class OneHot(TensorOneHot):
    """Nothing is hot where the index is negative; ONNX counts such an index from the end.

    tf2onnx has integer and boolean rows for indices of one axis only.
    """

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        dtype = ctx.get_dtype(node.output[0])
        b = Builder(ctx, node)
        depth = b.cast(node.input[1], TensorProto.INT64)
        indices = _none_negative(b, node.input[0], depth)
        if dtype == TensorProto.FLOAT:
            ctx.replace_input(node, node.input[0], indices, 0)
            super().version_13(ctx, node, **kwargs)
            return
        off, on = (
            b.unsqueeze(b.cast(value, TensorProto.FLOAT), 0)
            for value in (node.input[3], node.input[2])
        )
        values = b.op("Concat", off, on, axis=0)
        rows = b.op("OneHot", indices, depth, values, axis=node.get_attr("axis").i)
        b.finish("Cast", rows, to=dtype)


def _none_negative(b: Builder, indices: str, depth: str) -> str:
    """Indices as int64, those below zero past the end."""
    indices = b.cast(indices, TensorProto.INT64)
    return b.op("Where", b.op("Less", indices, b.const(0, "int64")), depth, indices)


@tf_op("ScatterNd", onnx_op="ScatterND")
class ScatterAdd(ScatterND):
    """Values by index into zeros, added up where an index comes twice; tf2onnx keeps the last."""

    @classmethod
    def version_16(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        indices = node.inputs[0]
        super().version_11(ctx, node, **kwargs)
        if not (indices.is_const() and cls._once_each(indices.get_tensor_value(as_list=False))):
            node.set_attr("reduction", "add")

    @staticmethod
    def _once_each(indices: np.ndarray) -> bool:
        rows = indices.reshape(-1, indices.shape[-1])
        return len(np.unique(rows, axis=0)) == len(rows)


# The reduction of ScatterND, and the value of a segment without rows.
_SEGMENTS = {
    "UnsortedSegmentMax": ("max", lambda limits: limits.min),
    "UnsortedSegmentMin": ("min", lambda limits: limits.max),
}


@handler(*_SEGMENTS, opset=18)
def unsorted_segment(b: Builder, node: Node) -> None:
    """Rows reduced into the segment of their number; a negative number is of no segment."""
    values, numbers, count = node.input
    reduction, empty = _SEGMENTS[node.type]
    dtype = NUMPY[b.graph.get_dtype(values)]
    kind = np.finfo if np.issubdtype(dtype, np.floating) else np.iinfo
    axes = len(shape_of(b.graph, numbers))
    size = b.op("Reshape", b.cast(count, TensorProto.INT64), b.const([1], "int64"))
    # Rows of no segment go into one more, which is cut off.
    rows = b.op("Add", size, b.const([1], "int64"))
    rest = b.slice(b.op("Shape", values), 0, axes, len(shape_of(b.graph, values)))
    shape = b.op("Concat", rows, rest, axis=0)
    start = b.op("Expand", b.const(empty(kind(dtype)), dtype), shape)
    places = b.unsqueeze(_none_negative(b, numbers, size), -1)
    filled = b.op("ScatterND", start, places, values, reduction=reduction)
    b.finish("Slice", filled, b.const([0], "int64"), size, b.const([0], "int64"))
