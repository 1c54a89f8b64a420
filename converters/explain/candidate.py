"""A candidate as the explanation sees it, whatever its format."""

from pathlib import Path
from typing import Protocol

from tfmp.converters.explain.attribution import Taps, Values
from tfmp.converters.shared.tensors import Batch


class Candidate(Protocol):
    """A file opened for taps.

    Attributes:
        computed: how its layers are computed in FP16 and in FP32, for the report.
        batch_size: samples that it takes at a time; None for any number.
        outputs: name of each seam that is an output, by the output's name.
        notes: what a reader should know.
    """

    computed: str
    batch_size: int | None
    outputs: dict[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, once it has run."""

    def layers(self) -> Taps:
        """Opened at the seams between its layers."""

    def nodes(self, layer: str) -> Taps:
        """Opened at the seams between the nodes of one layer."""

    def op(self, node: str) -> str:
        """The type of a node."""

    def save_node(self, node: str, inputs: Batch, values: Values, folder: Path) -> None:
        """Writes a node as a model of its own, with inputs, what it should give, and a script."""
