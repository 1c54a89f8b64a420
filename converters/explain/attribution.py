"""Attributes error to layers, from their results in FP32, in FP16, and in FP16 one by one."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tfmp.converters.drift import measure_distances
from tfmp.converters.report import LayerError
from tfmp.converters.shared.tensors import Batch


@dataclass(frozen=True)
class Operation:
    """One node of a candidate's graph.

    Attributes:
        part: the part that it belongs to; "" for a node that is not looked at.
        op: its type.
        name: its name in viewers of graphs.
    """

    part: str
    op: str
    name: str


@dataclass(frozen=True)
class Part:
    """A layer, or a single node, as it stands in a candidate's graph.

    Attributes:
        name: name of the layer or node.
        operations: its nodes, in order.
        reads: names of the values that other parts make for it.
        writes: names of its floating results that other parts read, or that are outputs.
    """

    name: str
    operations: tuple[Operation, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


# Suffix of the input that stands in for a seam where a graph is cut.
GIVEN = "__given"


def given(name: str) -> str:
    """The name of the input that stands in for a seam where a graph is cut."""
    return f"{name}{GIVEN}"


@dataclass(frozen=True)
class Seam:
    """A value that passes from one part to another, or out of the model.

    Attributes:
        name: name of the value.
        maker: the part that makes it.
        readers: the parts that read it.
        floating: whether its error is a distance.
    """

    name: str
    maker: str
    readers: tuple[str, ...]
    floating: bool


def parts_of(nodes: Iterable[Operation], seams: Sequence[Seam]) -> tuple[Part, ...]:
    """The parts in the order of their first node; nodes of part "" are left out.

    Args:
        nodes: every node, in the order of execution.
        seams: seams between the parts.
    """
    parts: dict[str, list[Operation]] = {}
    for node in nodes:
        parts.setdefault(node.part, []).append(node)
    return tuple(
        Part(
            name,
            tuple(operations),
            tuple(s.name for s in seams if name in s.readers and s.maker != name),
            tuple(s.name for s in seams if s.maker == name and s.floating),
        )
        for name, operations in parts.items()
        if name
    )


@dataclass(frozen=True)
class Values:
    """The values between parts, by name, from one batch.

    Attributes:
        exact: values with the whole model in FP32.
        received: values with the whole model in FP16.
        alone: values with one part in FP16 at a time, which was given the exact values.
    """

    exact: Batch
    received: Batch
    alone: Batch


class Taps(Protocol):
    """A candidate opened so that the values between its parts can be seen.

    Attributes:
        parts: the parts in the order of execution.
    """

    parts: tuple[Part, ...]

    def run(self, inputs: Batch) -> Values:
        """The values of one batch; arrays by input name."""


@dataclass
class _Distance:
    """How far one value is off, over the samples so far."""

    error_sq: float = 0.0
    reference_sq: float = 0.0
    nonfinite: int = 0
    infinite_lost: int = 0
    peak: float = 0.0

    def update(self, reference: np.ndarray, candidate: np.ndarray) -> None:
        counts, error_sq, reference_sq = measure_distances(reference[None], candidate[None])
        self.error_sq += error_sq.item()
        self.reference_sq += reference_sq.item()
        self.nonfinite += counts["nonfinite"]
        self.infinite_lost += counts["infinite_lost"]
        finite = np.abs(reference[np.isfinite(reference)])
        self.peak = max(self.peak, float(finite.max(initial=0.0)))

    @property
    def relative(self) -> float:
        if self.nonfinite or self.infinite_lost:
            return math.inf
        if self.error_sq == 0:
            return 0.0
        return math.sqrt(self.error_sq / self.reference_sq) if self.reference_sq else math.inf


def relative_of(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Relative L2 error; infinite where a value is lost or not finite."""
    distance = _Distance()
    distance.update(reference, candidate)
    return distance.relative


class Attribution:
    """Collects the errors of all parts, batch by batch."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._alone: dict[str, _Distance] = defaultdict(_Distance)
        self._received: dict[str, _Distance] = defaultdict(_Distance)

    def update(self, values: Values) -> None:
        """Adds one batch."""
        for name in {name for part in self._parts for name in part.writes}:
            exact = values.exact[name]
            self._alone[name].update(exact, values.alone[name])
            self._received[name].update(exact, values.received[name])

    def layers(self) -> tuple[LayerError, ...]:
        """One entry for each part that has floating results, in the order of execution."""
        return tuple(self._layer(part) for part in self._parts if part.writes)

    def _layer(self, part: Part) -> LayerError:
        alone = [self._alone[name] for name in part.writes]
        received = [self._received[name] for name in part.writes]
        before = [self._received[name].relative for name in part.reads if name in self._received]
        cumulative = max(found.relative for found in received)
        given = max(before, default=0.0)
        return LayerError(
            layer=part.name,
            ops=tuple(node.op for node in part.operations),
            local=max(found.relative for found in alone),
            cumulative=cumulative,
            jump=0.0 if math.isinf(given) else cumulative - given,
            nonfinite=sum(found.nonfinite for found in received),
            local_nonfinite=sum(found.nonfinite for found in alone),
            peak=max(found.peak for found in received),
            nodes=tuple(node.name for node in part.operations),
        )


def first_nonfinite(layers: Iterable[LayerError]) -> LayerError | None:
    """The first layer, in the order of execution, that gives values that are not finite."""
    return next((layer for layer in layers if layer.nonfinite), None)


def largest_jump(layers: Sequence[LayerError]) -> LayerError | None:
    """The layer that adds most to the error; the first one if several add the same."""
    found = max(layers, key=lambda layer: layer.jump, default=None)
    return found if found is not None and found.jump > 0 else None


def worst_alone(layers: Sequence[LayerError]) -> LayerError | None:
    """The first layer that is not finite by itself, else the one with the largest own error."""
    broken = next((layer for layer in layers if layer.local_nonfinite), None)
    if broken is not None:
        return broken
    found = max(layers, key=lambda layer: layer.local, default=None)
    return found if found is not None and found.local > 0 else None
