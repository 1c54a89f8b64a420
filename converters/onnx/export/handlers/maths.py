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


@handler("Log1p", opset=9)
def log1p(b: Builder, node: Node) -> None:
    """log1p(x) = log(u) * x / (u - 1) with u = fl(1 + x), or x where u is 1.

    Accurate where log(1 + x) loses every digit of a small x (Goldberg 1991, theorem 4).
    """
    x = node.input[0]
    one = b.const(1.0)
    u = b.op("Add", x, one)
    exact = b.op("Or", b.op("Equal", u, one), b.op("IsInf", u))
    difference = b.op("Where", exact, one, b.op("Sub", u, one))
    corrected = b.op("Div", b.op("Mul", b.op("Log", u), x), difference)
    infinite = b.op("Where", b.op("IsInf", u), u, x)
    b.finish("Where", exact, infinite, corrected)


@handler("Expm1", opset=9)
def expm1(b: Builder, node: Node) -> None:
    """expm1(x) = 2 sinh(x / 2) exp(x / 2); for large |x| the same as exp(x) - 1.

    sinh keeps the digits of a small x, where exp(x) - 1 cancels.
    """
    x = node.input[0]
    plain = b.op("Sub", b.op("Exp", x), b.const(1.0))
    half = b.op("Mul", x, b.const(0.5))
    product = b.op("Mul", b.op("Sinh", half), b.op("Exp", half))
    careful = b.op("Mul", product, b.const(2.0))
    small = b.op("Less", b.op("Abs", x), b.const(1.0))
    b.finish("Where", small, careful, plain)


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
