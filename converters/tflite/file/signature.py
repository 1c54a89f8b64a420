"""Changes names and order of a .tflite file's inputs and outputs in place.

The converter sorts a signature by name, orders the graph's outputs as it likes, and calls the
tensors "serving_default_x:0" and "StatefulPartitionedCall:0". Only strings and indices differ
from the names and order of the model: they are patched without unpacking the weights.
"""

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.tensors import TensorSpec

# The key of a file's only signature; LiteRT's samples use it too.
SIGNATURE = "serving_default"

# Slots of the fields in the tables of schema.fbs: 4 + 2 * (declaration index).
_TENSOR_NAME = 10
_TENSOR_MAP_NAME = 4
_SUBGRAPH_INPUTS = 6
_SUBGRAPH_OUTPUTS = 8


def safe_names(prefix: str, count: int) -> list[str]:
    """Names that TensorFlow accepts as they are and that sort in their own order."""
    return [f"{prefix}_{index:04d}" for index in range(count)]


Specs = Sequence[TensorSpec]
Table: TypeAlias = schema.flatbuffers.table.Table


def restore_names(path: Path, signatures: Mapping[str, tuple[Specs, Specs]]) -> None:
    """Gives a file that was exported under `safe_names` its real names, in their order.

    Args:
        path: a .tflite file; rewritten in place.
        signatures: inputs and outputs by signature, in the order of the safe names.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        patches = _Patches(len(data))
        model = schema.Model.GetRootAs(data, 0)
        for index in range(model.SignatureDefsLength()):
            signature = model.SignatureDefs(index)
            inputs, outputs = signatures[signature.SignatureKey().decode()]
            graph = model.Subgraphs(signature.SubgraphIndex())
            patches.rename(graph, _SUBGRAPH_INPUTS, _maps(signature, "Inputs"), inputs)
            patches.rename(graph, _SUBGRAPH_OUTPUTS, _maps(signature, "Outputs"), outputs)
        for position, content in patches.changed.items():
            data[position : position + len(content)] = content
        file.seek(0, 2)
        file.write(patches.appended)


@dataclass
class _Patches:
    """Changes to write: bytes by position, and bytes after the end.

    Attributes:
        size: size of the file before anything is appended.
        changed: new bytes by their position.
        appended: bytes to write after the end.
    """

    size: int
    changed: dict[int, bytes] = field(default_factory=dict)
    appended: bytearray = field(default_factory=bytearray)

    def rename(
        self, graph: schema.SubGraph, slot: int, entries: list[schema.TensorMap], specs: Specs
    ) -> None:
        """Names and orders one half of a signature and the tensors behind it."""
        self._reorder(graph._tab, slot, [entry.TensorIndex() for entry in entries])
        for entry, spec in zip(entries, specs, strict=True):
            self._point_to_string(entry._tab, _TENSOR_MAP_NAME, spec.name)
            tensor = graph.Tensors(entry.TensorIndex())
            self._point_to_string(tensor._tab, _TENSOR_NAME, spec.name)

    def _point_to_string(self, table: Table, slot: int, text: str) -> None:
        """Appends a string and makes a table's field refer to it."""
        self.appended.extend(b"\0" * (-(self.size + len(self.appended)) % 4))
        position = table.Pos + table.Offset(slot)
        distance = self.size + len(self.appended) - position  # counts from the field itself
        self.changed[position] = struct.pack("<I", distance)
        encoded = text.encode()
        self.appended.extend(struct.pack("<I", len(encoded)) + encoded + b"\0")

    def _reorder(self, table: Table, slot: int, indices: list[int]) -> None:
        """Puts a subgraph's vector of inputs or outputs in this order."""
        offset = table.Offset(slot)
        if not offset:
            return
        start, length = table.Vector(offset), table.VectorLen(offset)
        before = struct.unpack_from(f"<{length}i", table.Bytes, start)
        if sorted(before) == sorted(indices):
            self.changed[start] = struct.pack(f"<{length}i", *indices)


def _maps(signature: schema.SignatureDef, half: str) -> list[schema.TensorMap]:
    """The entries of a signature's inputs or outputs, sorted by name."""
    count, item = getattr(signature, f"{half}Length")(), getattr(signature, half)
    return sorted((item(index) for index in range(count)), key=lambda entry: entry.Name())
