"""What a file leaves to its host, as readers of metadata_schema.fbs find it."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import number_types
from flatbuffers.table import Table

from tfmp.converters.tflite.file import HostScaling, add_scaling

# Fields by their place in the schema: ModelMetadata, SubGraphMetadata, TensorMetadata, ProcessUnit.
SUBGRAPHS, OUTPUTS, NAME, UNITS, KIND, OPTIONS = 3, 3, 0, 4, 0, 1
NORMALIZATION = 1


def field(table: Table, place: int) -> int:
    return table.Offset(4 + 2 * place)


def tables(table: Table, place: int) -> list[Table]:
    offset = field(table, place)
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * index))
        for index in range(table.VectorLen(offset))
    ]


def test_metadata_tells_the_host_to_normalize_an_output():
    model = schema.ModelT()
    model.buffers, model.metadata = [schema.BufferT()], []
    scale, offset = np.array([2.0, 4.0], np.float32), np.array([290.0, -3.0], np.float32)
    add_scaling(model, ["x"], ["y", "z"], {"z": HostScaling(scale, offset)})
    (entry,) = [
        one for one in model.metadata if one.name in ("TFLITE_METADATA", b"TFLITE_METADATA")
    ]
    data = bytes(model.buffers[entry.buffer].data)
    assert data[4:8] == b"M001"
    root = Table(data, int.from_bytes(data[:4], "little"))
    (graph,) = tables(root, SUBGRAPHS)
    y, z = tables(graph, OUTPUTS)
    assert [one.String(one.Pos + field(one, NAME)) for one in (y, z)] == [b"y", b"z"]
    assert not field(y, UNITS)
    (unit,) = tables(z, UNITS)
    assert unit.Get(number_types.Uint8Flags, unit.Pos + field(unit, KIND)) == NORMALIZATION
    options = Table(data, unit.Indirect(unit.Pos + field(unit, OPTIONS)))
    mean, std = (
        options.GetVectorAsNumpy(number_types.Float32Flags, field(options, place))
        for place in (0, 1)
    )
    given = np.array([[0.5, 1.0]], np.float32)  # the host's (y - mean) / std
    np.testing.assert_allclose((given - mean) / std, given * scale + offset, rtol=1e-6)
