"""ONNX files without their large weights, which are read where they lie when they are used.

Protobuf would hold all of them, and the bytes of the file beside them. Field numbers come from
onnx.proto: ModelProto.graph = 7, GraphProto.initializer = 5, TensorProto.raw_data = 9.
"""

import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9

# Of a weight that is worth the trouble.
_LARGE_BYTES = 2**16

# What NumPy and ONNX lay out alike; other types (4-bit, strings) stay where they are.
PLAIN = frozenset(
    "bfloat16 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)

# The comment of a node that stands in the place of a ZipMap.
NO_MAP = "the maps that ZipMap makes are read as rows, with a column for each class"

# Wire types of protobuf.
_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5


def read_light(path: Path, mapped: bool) -> "tuple[onnx.ModelProto, dict[str, np.ndarray]]":
    """The model in a file without its large weights, and these by name, read-only.

    Args:
        path: the file.
        mapped: leave the weights in the file, which must not be written to while they are used.

    Raises:
        Exception: it is no model; protobuf and ONNX each raise their own.
    """
    import onnx

    weights: dict[str, np.ndarray] = {}
    with path.open("rb") as file:
        if mapped and os.name != "nt" and path.stat().st_size > _LARGE_BYTES:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        else:  # Windows replaces no file that is mapped
            content = memoryview(file.read())
    try:
        light = b"".join(_model(content, weights))
    except (IndexError, ValueError):  # protobuf says why
        return onnx.load(path, load_external_data=False), {}
    return onnx.load_model_from_string(light), weights


def without_maps(model: "onnx.ModelProto") -> None:
    """Gives the tensors that ZipMap nodes read, by the names of their maps.

    Classifiers that skl2onnx and onnxmltools write end in one, unless they are told not to.
    """
    import onnx

    makers = {node.output[0]: node for node in model.graph.node if node.op_type == "ZipMap"}
    for value in model.graph.output:
        if (node := makers.get(value.name)) is not None:
            classes = len(node.attribute[0].ints or node.attribute[0].strings)
            made = onnx.helper.make_tensor_value_info(
                value.name, onnx.TensorProto.FLOAT, [None, classes]
            )
            value.CopyFrom(made)
            node.op_type, node.domain, node.doc_string = "Identity", "", NO_MAP
            del node.attribute[:]


def delimited(number: int, length: int) -> bytes:
    """The tag of a length-delimited protobuf field, and the length as a varint."""
    encoded = bytearray([number << 3 | _DELIMITED])
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*encoded, length])


def _model(content: memoryview, weights: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    for number, whole, value in _fields(content, slice(0, len(content))):
        if number != GRAPH:
            yield content[whole]
            continue
        graph = b"".join(_graph(content, value, weights))
        yield delimited(GRAPH, len(graph))
        yield graph


def _graph(
    content: memoryview, place: slice, weights: dict[str, np.ndarray]
) -> Iterator[bytes | memoryview]:
    for number, whole, value in _fields(content, place):
        large = number == INITIALIZER and value.stop - value.start > _LARGE_BYTES
        stub = _stub(content, value, weights) if large else None
        if stub is None:
            yield content[whole]
        else:
            yield delimited(INITIALIZER, len(stub))
            yield stub


def _stub(content: memoryview, place: slice, weights: dict[str, np.ndarray]) -> bytes | None:
    """A tensor without its values, which are added to the weights; None if it has no such ones."""
    import onnx

    fields = list(_fields(content, place))
    raw = [value for number, _, value in fields if number == RAW_DATA]
    stub = b"".join(content[whole] for number, whole, _ in fields if number != RAW_DATA)
    tensor = onnx.TensorProto.FromString(stub)
    if len(raw) != 1 or not tensor.data_type or tensor.name in weights:
        return None
    dtype, size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type), math.prod(tensor.dims)
    if dtype.name not in PLAIN or size * dtype.itemsize != raw[0].stop - raw[0].start:
        return None
    array = np.frombuffer(content, dtype, size, raw[0].start)
    weights[tensor.name] = array.reshape(tensor.dims)
    return stub


def _fields(content: memoryview, place: slice) -> Iterator[tuple[int, slice, slice]]:
    """Number, place and place of the value of each field of a message.

    Raises:
        IndexError, ValueError: it is none.
    """
    at = place.start
    while at < place.stop:
        start = at
        tag, at = _varint(content, at)
        wire = tag & 7
        if wire == _DELIMITED:
            length, at = _varint(content, at)
        elif wire == _VARINT:
            length = _varint(content, at)[1] - at
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire, len(content))
        if at + length > place.stop:
            raise ValueError("a field ends behind its message")
        yield tag >> 3, slice(start, at + length), slice(at, at + length)
        at += length


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    """A number and the place behind it."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
