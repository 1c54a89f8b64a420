"""A candidate of any format, as the explanation sees it."""

from pathlib import Path
from typing import Protocol

from tfmp.converters.explain.attribution import Taps, Values
from tfmp.converters.shared.tensors import Batch


class Candidate(Protocol):
    """A file whose inner values can be read.

    Attributes:
        computed: the way its layers are computed in FP16 and in FP32, in words for the report.
        batch_size: number of samples that it takes at a time; None for any number.
        outputs: name of each seam that is an output, by the output's name.
        graph: name of its graph in viewers of graphs.
        notes: facts that a reader should know.
    """

    computed: str
    batch_size: int | None
    outputs: dict[str, str]
    graph: str

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that a reader should know, once the file has run."""

    def layers(self) -> Taps:
        """Opens the file at the seams between its layers."""

    def nodes(self, layer: str) -> Taps:
        """Opens the file at the seams between the nodes of one layer."""

    def op(self, node: str) -> str:
        """The type of a node."""

    def save_node(self, node: str, inputs: Batch, values: Values, folder: Path) -> None:
        """Writes a node as a model of its own, with inputs, expected results, and a script."""
