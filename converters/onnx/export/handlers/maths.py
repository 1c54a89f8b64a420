"""Division that rounds down, its remainder, and choices."""

from onnx import TensorProto
from tf2onnx.graph import Graph, Node
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.controlflow import Select as TensorSelect
from tf2onnx.onnx_opset.math import FloorDiv as TensorFloorDiv

from tfmp.converters.onnx.export.handlers.building import Builder, handler

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


@tf_op(["Select", "SelectV2"])
class Select(TensorSelect):
    """A choice as Where; tf2onnx adds products with zeros and ones, and 0 * infinity is not 0.

    The side that a model does not select is often the one that it guards against: a division by
    zero.
    """

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **kwargs: object) -> None:
        node.set_attr("handles_nan", 1)
        super().version_9(ctx, node, **kwargs)
