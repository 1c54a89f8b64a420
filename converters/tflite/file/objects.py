"""A .tflite file as objects that can be changed, and back."""

from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.errors import ConversionError

# A FlatBuffer's offsets are signed 32-bit numbers (flatbuffers.dev, "Internals").
FLATBUFFER_LIMIT_BYTES = 2**31 - 1

IDENTIFIER = b"TFL3"
# The entry of a file whose data lies behind the flatbuffer.
_BEHIND = b"buffer_location"
# schema.fbs, Buffer: data is `force_align: 16`, which the generated code does not do.
_ALIGNMENT = 16
# Room for all that is no constant, before the buffer has to grow.
_SPARE_BYTES = 1 << 20


def unpacked(path: Path) -> schema.ModelT:
    """The whole file as objects; its constants are views of the file."""
    content = np.memmap(path, np.uint8, "r")
    model = schema.ModelT.InitFromPackedBuf(memoryview(content.data), 0)
    for buffer in model.buffers:
        if buffer.offset > 1:  # in files past 2 GiB the data lies behind the flatbuffer
            buffer.data = content[buffer.offset : buffer.offset + buffer.size]
            buffer.offset = buffer.size = 0
    model.metadata = [entry for entry in model.metadata or () if entry.name != _BEHIND]
    return model


def pack(model: schema.ModelT, path: Path) -> None:
    """Writes objects as a file; if they are views of it, they are of no use afterwards.

    Raises:
        ConversionError: a FlatBuffer cannot hold that much.
    """
    sizes = (buffer.data.nbytes for buffer in model.buffers if buffer.data is not None)
    needed = sum(size + _ALIGNMENT for size in sizes) + _SPARE_BYTES
    if needed > FLATBUFFER_LIMIT_BYTES:
        raise ConversionError(f"{path.name}: past 2 GiB, which no .tflite file can be.")
    builder = _Builder(needed)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    with path.open("wb") as file:
        file.write(memoryview(builder.Bytes)[builder.Head() :])


def add_metadata(model: schema.ModelT, name: str, content: bytes) -> None:
    """Adds a named entry, which LiteRT's readers of metadata find."""
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(content, np.uint8)
    model.buffers.append(buffer)
    entry.name, entry.buffer = name.encode(), len(model.buffers) - 1
    model.metadata.append(entry)


class _Builder(schema.flatbuffers.Builder):
    def CreateNumpyVector(self, x: np.ndarray) -> int:
        if x.dtype != np.uint8:
            return int(super().CreateNumpyVector(x))
        self.StartVector(1, x.size, _ALIGNMENT)
        self.head = self.Head() - x.size
        self.Bytes[self.head : self.head + x.size] = np.ascontiguousarray(x).data
        self.vectorNumElems = x.size
        return int(self.EndVector())
