"""Scales and offsets that a .tflite file leaves to its host, in metadata that LiteRT has for it.

`TFLITE_METADATA` holds a FlatBuffer of metadata_schema.fbs (github.com/tensorflow/tflite-support).
Its `NormalizationOptions` of an output tell the host to give (y - mean) / std in place of y.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file.objects import add_metadata
from tfmp.converters.tflite.file.reader import TFLiteModel

_METADATA = "TFLITE_METADATA"
_IDENTIFIER = b"M001"
# The same in JSON: files of others may mean other values than those of their reference.
_OWN = "tfmp.host_scaling"
# The first version of the schema that has normalization.
_PARSER_VERSION = "1.0.0"
_NORMALIZATION = 1  # its place in the union ProcessUnitOptions

# Fields by their place in their tables.
_MODEL = {"subgraphs": 3, "min_parser_version": 7}
_SUBGRAPH = {"inputs": 2, "outputs": 3}
_TENSOR = {"name": 0, "process_units": 4}
_UNIT = {"type": 0, "options": 1}
_OPTIONS = {"mean": 0, "std": 1}


@dataclass(frozen=True)
class HostScaling:
    """What a host does to an output: y * scale + offset.

    Attributes:
        scale: one value, or one for each place along the last axis.
        offset: as many values.
    """

    scale: np.ndarray
    offset: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """The output in its own unit, in float32."""
        scaled: np.ndarray = values.astype(np.float64) * self.scale + self.offset
        return scaled.astype(np.float32)

    def __str__(self) -> str:
        scale, offset = (
            f"{values[0]:.6g}" if values.size == 1 else f"{values.size} values from {values[0]:.6g}"
            for values in (self.scale, self.offset)
        )
        return f"times {scale} plus {offset}"


def scaled_by_host(outputs: Batch, scaling: Mapping[str, HostScaling]) -> Batch:
    """The outputs of a file as its host gives them."""
    return {
        name: scaling[name].apply(array) if name in scaling else array
        for name, array in outputs.items()
    }


def add_scaling(
    model: schema.ModelT,
    inputs: Sequence[str],
    outputs: Sequence[str],
    scaling: Mapping[str, HostScaling],
) -> None:
    """Adds metadata on a host's scaling: for LiteRT's readers, and for `host_scaling`.

    Args:
        model: a file as objects; it is changed.
        inputs: names of the inputs in the file's order.
        outputs: names of the outputs in that order.
        scaling: what the host does, by output name.
    """
    builder = schema.flatbuffers.Builder()

    def table(fields: Mapping[int, Any]) -> int:
        builder.StartObject(max(fields) + 1)
        for slot, value in fields.items():
            if slot == _UNIT["type"] and value == _NORMALIZATION:
                builder.PrependUint8Slot(slot, value, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())

    def tables(positions: Sequence[int]) -> int:
        builder.StartVector(4, len(positions), 4)
        for position in reversed(positions):
            builder.PrependUOffsetTRelative(position)
        return int(builder.EndVector())

    def tensor(name: str) -> int:
        fields = {_TENSOR["name"]: builder.CreateString(name)}
        if one := scaling.get(name):
            mean, std = -one.offset / one.scale, 1 / one.scale
            options = {
                _OPTIONS[key]: builder.CreateNumpyVector(values.astype(np.float32))
                for key, values in (("mean", mean), ("std", std))
            }
            unit = {_UNIT["type"]: _NORMALIZATION, _UNIT["options"]: table(options)}
            fields[_TENSOR["process_units"]] = tables([table(unit)])
        return table(fields)

    halves = {"inputs": inputs, "outputs": outputs}
    graph = {_SUBGRAPH[half]: tables([*map(tensor, names)]) for half, names in halves.items()}
    fields = {
        _MODEL["subgraphs"]: tables([table(graph)]),
        _MODEL["min_parser_version"]: builder.CreateString(_PARSER_VERSION),
    }
    builder.Finish(table(fields), _IDENTIFIER)
    add_metadata(model, _METADATA, bytes(builder.Output()))
    exact = {name: [one.scale.tolist(), one.offset.tolist()] for name, one in scaling.items()}
    add_metadata(model, _OWN, json.dumps(exact).encode())


def host_scaling(model: TFLiteModel) -> dict[str, HostScaling]:
    """What the host of a file that tfmp wrote does, by output name.

    Raises:
        InputError: the entry is damaged.
    """
    try:
        told = json.loads(model.metadata.get(_OWN, b"{}"))
        pairs = {name: map(np.asarray, one) for name, one in told.items()}
        return {name: HostScaling(*pair) for name, pair in pairs.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{model.path}: metadata entry {_OWN} is damaged ({error}). Convert the model again."
        ) from error
