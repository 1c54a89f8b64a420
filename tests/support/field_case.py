"""A public report of trouble with FP16 or export, rebuilt as a small model that shows it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from public_thread import Thread

from tfmp.converters.shared.tensors import Batch

Generator = np.random.Generator


@dataclass(frozen=True)
class FieldCase(Thread):
    """One report.

    Attributes:
        thread: where it was made, as in "owner/name#7".
        title: what goes wrong there, in a few words.
        verdicts: on the FP16 file, and behind a FAIL on the mixed or the repaired one.
        make: builds the model: an ONNX protobuf or a Keras model. Seeded.
        draw: draws samples by input name.
        samples: how many. Fewer than 59 certify nothing.
        to: "onnx" or "tflite".
        emulate: precision of sums, as `convert` takes it; None for its default.
        options: further options of `convert`.
    """

    thread: str
    title: str
    verdicts: str
    make: Callable[[], Any]
    draw: Callable[[Generator, int], Batch]
    samples: int = 96
    to: str = "onnx"
    emulate: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def model(self) -> Any:
        """Its model; the nodes of an ONNX model have names, as exporters give them."""
        made = self.make()
        if isinstance(made, onnx.ModelProto):
            _name_nodes(made.graph, "")
        return made

    def batch(self) -> Batch:
        """Its samples, the same every time."""
        return self.draw(np.random.default_rng(7), self.samples)


def _name_nodes(graph: onnx.GraphProto, scope: str) -> None:
    for index, node in enumerate(graph.node):
        node.name = f"{scope}{node.op_type}_{index}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g, f"{node.name}/{attribute.name}/")


def normal(name: str, *shape: int, scale: float = 1.0) -> Callable[[Generator, int], Batch]:
    """Draws one input from a normal distribution."""

    def draw(generator: Generator, samples: int) -> Batch:
        values = generator.standard_normal((samples, *shape)) * scale
        return {name: values.astype(np.float32)}

    return draw


def weights(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Weights by name, each scaled by its number of inputs."""
    generator = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        inputs = int(np.prod(shape[1:] if len(shape) == 4 else shape[:-1])) or 1
        made[name] = (generator.standard_normal(shape) / inputs**0.5).astype(np.float32)
    return made
