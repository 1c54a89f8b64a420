"""Scales and offsets that a .tflite file leaves to its host.

They are JSON in an entry of the file's metadata: scales and offsets by the names of outputs.
LiteRT's readers (`ReadAllMetadata`, `LiteRtGetModelMetadata`) give its bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file.objects import add_metadata
from tfmp.converters.tflite.file.reader import TFLiteModel

_ENTRY = "tfmp.host_scaling"


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


def add_scaling(model: schema.ModelT, scaling: Mapping[str, HostScaling]) -> None:
    """Adds metadata on a host's scaling, by output name; a file as objects is changed."""
    pairs = {name: [one.scale.tolist(), one.offset.tolist()] for name, one in scaling.items()}
    add_metadata(model, _ENTRY, json.dumps(pairs).encode())


def host_scaling(model: TFLiteModel) -> dict[str, HostScaling]:
    """What the host of a file that tfmp wrote does, by output name.

    Raises:
        InputError: the entry is damaged.
    """
    try:
        told = json.loads(model.metadata.get(_ENTRY, b"{}"))
        pairs = {name: map(np.asarray, one) for name, one in told.items()}
        return {name: HostScaling(*pair) for name, pair in pairs.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{model.path}: metadata entry {_ENTRY} is damaged ({error}). Convert the model again."
        ) from error
