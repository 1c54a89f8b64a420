"""Bins, sorted search, and the sign bit that TensorFlow's argmax looks at."""

from typing import Any

import numpy as np
from onnx import TensorProto
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.tensor import OneHot as TensorOneHot

from tfmp.converters.onnx.handlers.building import Builder


@tf_op("Bucketize")
class Bucketize:
    """The number of boundaries at or below each value."""

    @classmethod
    def version_16(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        b = Builder(ctx, node)
        boundaries = b.const(list(node.get_attr("boundaries").floats), "float32")
        values = b.unsqueeze(b.cast(node.input[0], TensorProto.FLOAT), -1)
        beyond = b.cast(b.op("GreaterOrEqual", values, boundaries), TensorProto.INT32)
        b.finish("Identity", b.sum(beyond, -1))


@tf_op(["LowerBound", "UpperBound"])
class SortedSearch:
    """Where each value would be inserted into its sorted row: the number of elements before it."""

    @classmethod
    def version_16(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        b = Builder(ctx, node)
        rows, values = (b.unsqueeze(node.input[0], -2), b.unsqueeze(node.input[1], -1))
        before = b.op("Less" if node.type == "LowerBound" else "LessOrEqual", rows, values)
        count = b.sum(b.cast(before, TensorProto.INT32), -1)
        b.finish("Cast", count, to=node.get_attr("out_type").i)


@tf_op("InTopKV2")
class InTopK:
    """Whether fewer than k scores of a row beat that of its target."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        b = Builder(ctx, node)
        scores, targets, k = node.input
        own = b.op("GatherElements", scores, b.unsqueeze(targets, -1), axis=-1)
        better = b.sum(b.cast(b.op("Greater", scores, own), TensorProto.INT32), -1)
        b.finish("Less", better, b.cast(k, TensorProto.INT32))


_SIGN_MASK = np.iinfo(np.int32).min


@tf_op("Bitcast")
class SignBit:
    """The bits of a float as an integer, where only its sign bit is read.

    Keras takes argmax, argmin and signbit through it, to tell -0 from 0. ONNX has no such op below
    opset 26; 1 / x is negative for just the negative values and -0.
    """

    @classmethod
    def version_9(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        readers = ctx.find_output_consumers(node.output[0])
        masked = all(
            reader.type == "BitwiseAnd"
            and any(value.is_const() and cls._is_mask(value) for value in reader.inputs)
            for reader in readers
        )
        if ctx.get_dtype(node.input[0]) != TensorProto.FLOAT or not masked:
            raise ValueError("bits of a float have an ONNX form only where its sign is read")
        b, x = Builder(ctx, node), node.input[0]
        # 1 / -inf is -0, which is not below zero: infinities are looked at as they are.
        negative = b.op("Less", x, b.const(0.0))
        negative_zero = b.op("Less", b.op("Reciprocal", x), b.const(0.0))
        sign = b.cast(b.op("Or", negative, negative_zero), TensorProto.INT32)
        b.finish("Mul", sign, b.const(_SIGN_MASK, np.int32))

    @staticmethod
    def _is_mask(value: Any) -> bool:
        return value.get_tensor_value(as_list=False).reshape(-1).tolist() == [_SIGN_MASK]


@tf_op("OneHot")
class OneHot(TensorOneHot):
    """tf2onnx has integer and boolean one-hot rows for indices of one axis only."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        dtype = ctx.get_dtype(node.output[0])
        if dtype == TensorProto.FLOAT:
            super().version_13(ctx, node, **kwargs)
            return
        b = Builder(ctx, node)
        off, on = (
            b.unsqueeze(b.cast(value, TensorProto.FLOAT), 0)
            for value in (node.input[3], node.input[2])
        )
        indices = b.cast(node.input[0], TensorProto.INT64)
        depth = b.cast(node.input[1], TensorProto.INT64)
        values = b.op("Concat", off, on, axis=0)
        rows = b.op("OneHot", indices, depth, values, axis=node.get_attr("axis").i)
        b.finish("Cast", rows, to=dtype)
