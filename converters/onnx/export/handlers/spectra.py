"""Fourier transforms. A complex tensor is a real one with a last axis of size 2: (re, im)."""

from typing import Any

from onnx import TensorProto
from tf2onnx.graph import Node
from tf2onnx.handler import tfl_op
from tf2onnx.tflite_handlers.tfl_direct import TflDirectOp

from tfmp.converters.onnx.export.handlers.building import Builder, handler, shape_of


def _as_pairs(b: Builder) -> None:
    """Says that the complex outputs of the node are float pairs."""
    for name in b.node.output:
        shape = b.graph.get_shape(name)
        b.graph.set_dtype(name, TensorProto.FLOAT)
        if shape is not None:
            b.graph.set_shape(name, [*shape, 2])


def _lengths(node: Node) -> list[int]:
    """How many terms a real transform has along each of its axes."""
    return [int(length) for length in node.inputs[1].get_tensor_value(as_list=False).reshape(-1)]


def _dft(b: Builder, pairs: str, axis: int, rank: int, **attributes: Any) -> str:
    """ONNX's DFT over one axis of a complex tensor of this rank (without the pair axis)."""
    axis %= rank
    if b.graph.opset >= 20:
        return b.op("DFT", pairs, "", b.const(axis, "int64"), **attributes)
    return b.op("DFT", pairs, axis=axis, **attributes)


def _fitted(b: Builder, value: str, axis: int, size: int, length: int, trailing: int = 0) -> str:
    """`value` cut or zero-padded to `length` along an axis counted from the end.

    A size that varies (-1) is padded to more than enough, and cut.
    """
    if size < length:
        rank = len(shape_of(b.graph, value))
        pads = [0] * (2 * rank)
        pads[rank + (axis - trailing) % rank] = length - max(size, 0)
        value = b.op("Pad", value, b.const(pads, "int64"))
    if 0 <= size <= length:
        return value
    return b.slice(value, axis - trailing, 0, length)


@handler("Complex", opset=17)
def complex_pairs(b: Builder, node: Node) -> None:
    """Two real tensors as pairs."""
    _as_pairs(b)
    b.finish("Concat", *(b.unsqueeze(part, -1) for part in node.input), axis=-1)


# Operators of .tflite files that tf2onnx lacks.
for name in ("Real", "Imag"):
    tfl_op(f"TFL_{name.upper()}", tf_op=name)(TflDirectOp)


@handler("Real", "Imag", opset=17)
def part(b: Builder, node: Node) -> None:
    """One half of the pairs."""
    index = b.const(0 if node.type == "Real" else 1, "int64")
    b.finish("Gather", node.input[0], index, axis=-1)


@handler("ComplexAbs", opset=17)
def magnitude(b: Builder, node: Node) -> None:
    """sqrt(re^2 + im^2)."""
    b.finish("Sqrt", b.sum(b.op("Mul", node.input[0], node.input[0]), -1))


@handler("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D", opset=17)
def fourier(b: Builder, node: Node) -> None:
    """Transforms of complex tensors over the last one to three axes."""
    rank = len(shape_of(b.graph, node.output[0]))
    _as_pairs(b)
    value = node.input[0]
    inverse = int(node.type.startswith("I"))
    axes = int(node.type[-2]) if node.type.endswith("D") else 1
    for axis in range(-axes, 0):
        value = _dft(b, value, axis, rank, inverse=inverse)
    b.finish("Identity", value)


@handler("RFFT", "RFFT2D", opset=17)
def real_fourier(b: Builder, node: Node) -> None:
    """The first n / 2 + 1 terms of the transform of a real tensor over its last one or two axes."""
    *rows, length = _lengths(node)
    shape = shape_of(b.graph, node.input[0])
    _as_pairs(b)
    value = _fitted(b, node.input[0], -1, shape[-1], length)
    for count in rows:
        value = _fitted(b, value, -2, shape[-2], count)
    value = _dft(b, b.unsqueeze(value, -1), -1, len(shape), onesided=1)
    for _ in rows:
        value = _dft(b, value, -2, len(shape))
    b.finish("Identity", value)


@handler("IRFFT", "IRFFT2D", opset=17)
def inverse_real_fourier(b: Builder, node: Node) -> None:
    """A real tensor from the first n / 2 + 1 terms; the others are their conjugates."""
    *rows, length = _lengths(node)
    rank = len(shape_of(b.graph, node.output[0]))
    *_, height, size, _ = [0, *shape_of(b.graph, node.input[0])]
    half = _fitted(b, node.input[0], -1, size, length // 2 + 1, trailing=1)
    for count in rows:
        half = _fitted(b, half, -2, height, count, trailing=1)
        half = _dft(b, half, -2, rank, inverse=1)
    # Terms length // 2 + 1 ... length - 1 mirror terms (length - 1) // 2 ... 1.
    mirrored = b.slice(half, -2, (length - 1) // 2, 0, -1)
    mirrored = b.op("Mul", mirrored, b.const([1.0, -1.0], "float32"))
    whole = b.op("Concat", half, mirrored, axis=-2)
    result = _dft(b, whole, -1, rank, inverse=1)
    b.finish("Gather", result, b.const(0, "int64"), axis=-1)
