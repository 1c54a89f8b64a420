"""Elementwise functions and small vector algebra."""

from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.math import FloorDiv as TensorFloorDiv

from tfmp.converters.onnx.export.handlers.building import Builder, handler


@handler("Erfc", opset=9)
def erfc(b: Builder, node: Node) -> None:
    """erfc(x) = 1 - erf(x): exact GELU is x/2 * erfc(-x / sqrt(2)) in Keras."""
    b.finish("Sub", b.const(1.0), b.op("Erf", node.input[0]))


_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)


@handler("FloorMod", opset=13)
def floor_mod(b: Builder, node: Node) -> None:
    """The remainder with the sign of the divisor.

    ONNX has it for integers. For floats it has C's fmod, of which TensorFlow makes it like this;
    x - floor(x / y) y loses the digits of a large quotient.
    """
    x, y = node.input
    if b.graph.get_dtype(x) not in _FLOATS:
        b.finish("Mod", x, y)
        return
    rest = b.op("Mod", x, y, fmod=1)
    zero = b.const(0.0)
    alike = b.op("Not", b.op("Xor", b.op("Less", x, zero), b.op("Less", y, zero)))
    b.finish("Where", alike, rest, b.op("Mod", b.op("Add", rest, y), y, fmod=1))


@tf_op("FloorDiv")
class FloorDiv(TensorFloorDiv):
    """The quotient rounded down; tf2onnx rounds integers towards zero, as ONNX's Div does."""

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        x, y = node.input
        if ctx.get_dtype(x) in _FLOATS:
            super().version_6(ctx, node, **kwargs)
            return
        b = Builder(ctx, node)
        b.finish("Div", b.op("Sub", x, b.op("Mod", x, y)), y)


@handler("RightShift", opset=13)
def right_shift(b: Builder, node: Node) -> None:
    """Bits moved down, the sign kept: ONNX moves bits of unsigned integers only."""
    x, count = node.input
    dtype = b.graph.get_dtype(node.output[0])
    wide = b.cast(x, TensorProto.INT64)
    negative = b.op("Less", wide, b.const(0, "int64"))
    flipped = b.op("Sub", b.const(-1, "int64"), wide)  # all its bits
    bits = b.cast(b.op("Where", negative, flipped, wide), TensorProto.UINT64)
    moved = b.op("BitShift", bits, b.cast(count, TensorProto.UINT64), direction="RIGHT")
    moved = b.cast(moved, TensorProto.INT64)
    restored = b.op("Sub", b.const(-1, "int64"), moved)
    b.finish("Cast", b.op("Where", negative, restored, moved), to=dtype)
