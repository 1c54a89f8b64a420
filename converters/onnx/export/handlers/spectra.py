"""Fourier transforms. A complex tensor is a real one with a last axis of size 2: (re, im)."""

from onnx import TensorProto
from tf2onnx.graph import Node
from tf2onnx.handler import tfl_op
from tf2onnx.tflite_handlers.tfl_direct import TflDirectOp

from tfmp.converters.onnx.export.handlers.building import Builder, handler


def _as_pairs(b: Builder) -> None:
    """Says that the complex outputs of the node are float pairs."""
    for name in b.node.output:
        shape = b.graph.get_shape(name)
        b.graph.set_dtype(name, TensorProto.FLOAT)
        if shape is not None:
            b.graph.set_shape(name, [*shape, 2])


@handler("Complex", opset=17)
def complex_pairs(b: Builder, node: Node) -> None:
    """Two real tensors as pairs."""
    _as_pairs(b)
    last = b.const([-1], "int64")
    b.finish("Concat", *(b.op("Unsqueeze", part, last) for part in node.input), axis=-1)


# Operators of .tflite files that tf2onnx lacks.
for name in ("Real", "Imag"):
    tfl_op(f"TFL_{name.upper()}", tf_op=name)(TflDirectOp)


@handler("Real", "Imag", opset=17)
def part(b: Builder, node: Node) -> None:
    """One half of the pairs."""
    index = b.const(0 if node.type == "Real" else 1, "int64")
    b.finish("Gather", node.input[0], index, axis=-1)


@handler("FFT", "IFFT", opset=17)
def fourier(b: Builder, node: Node) -> None:
    """Transforms of complex tensors over the last axis; intake makes all others of them."""
    _as_pairs(b)
    last = {} if b.graph.opset >= 20 else {"axis": -2}  # which is the default from there on
    b.finish("DFT", node.input[0], inverse=int(node.type == "IFFT"), **last)


@handler("RFFT2D", opset=17)
def real_fourier(b: Builder, node: Node) -> None:
    """The one transform that .tflite files have: of a real tensor over its last two axes."""
    _as_pairs(b)
    found = b.op("Unsqueeze", node.input[0], b.const([-1], "int64"))
    for axis, one_sided in ((1, 1), (0, 0)):
        size = b.cast(b.op("Gather", node.input[1], b.const(axis, "int64")), TensorProto.INT64)
        if b.graph.opset < 20:
            found = b.op("DFT", found, size, onesided=one_sided, axis=axis - 3)
        else:
            found = b.op("DFT", found, size, b.const(axis - 3, "int64"), onesided=one_sided)
    b.finish("Identity", found)
