"""Names and order of a .tflite file's inputs and outputs.

The converter sorts a signature by name, orders the graph's outputs as it likes, and calls the
tensors "serving_default_x:0" and "StatefulPartitionedCall:0".
"""

from collections.abc import Mapping, Sequence

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.tensors import TensorSpec

# The key of a file's only signature; LiteRT's samples use it too.
SIGNATURE = "serving_default"


def safe_names(prefix: str, count: int) -> list[str]:
    """Names that TensorFlow accepts as they are and that sort in their own order."""
    return [f"{prefix}_{index:04d}" for index in range(count)]


Specs = Sequence[TensorSpec]


def restore_names(model: schema.ModelT, signatures: Mapping[str, tuple[Specs, Specs]]) -> None:
    """Gives a file that was exported under `safe_names` its real names, in their order.

    Args:
        model: the file as objects.
        signatures: inputs and outputs by signature, in the order of the safe names.
    """
    for signature in model.signatureDefs:
        graph = model.subgraphs[signature.subgraphIndex]
        halves = zip(
            ("inputs", "outputs"), signatures[signature.signatureKey.decode()], strict=True
        )
        for half, specs in halves:
            entries = sorted(getattr(signature, half), key=lambda entry: entry.name)
            for entry, spec in zip(entries, specs, strict=True):
                entry.name = graph.tensors[entry.tensorIndex].name = spec.name.encode()
            setattr(signature, half, entries)
            indices = [entry.tensorIndex for entry in entries]
            if sorted(indices) == sorted(map(int, getattr(graph, half))):
                setattr(graph, half, np.array(indices, np.int32))
