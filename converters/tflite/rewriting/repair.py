"""Rewrites a model whose FP16 arithmetic overflows, and measures it again.

A TFLite file for GPUs cannot mix precisions, so islands of FP32 do not help: the numbers themselves
must become smaller. In FP32 the rewritten model gives the same results as before.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfmp.converters.intake import Graph, Node, Rewrite, Source
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting.exponentials import tame_exponentials
from tfmp.converters.tflite.rewriting.gaps import without_gaps
from tfmp.converters.tflite.rewriting.masks import finite_masks
from tfmp.converters.tflite.rewriting.ranges import Magnitudes, measure, worst_of
from tfmp.converters.tflite.rewriting.rescale import rescale
from tfmp.shared.numerics import FLOAT16

# Two float32 evaluations of the same formula in another order differ by a few units of 2**-24.
_FP32_TOLERANCE = 2.0**-18

Batches = Callable[[], Iterable[Batch]]


@dataclass(frozen=True)
class Change:
    """The change that a repair made in one layer.

    Attributes:
        layer: the layer, or an operation that belongs to no layer, in words.
        what: "scaled by powers of two", "mask kept finite" or "largest exponent taken out".
        before: largest magnitude of a value, or of a sum on the way to one.
        after: the same magnitude in the repaired model.
    """

    layer: str
    what: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"repaired {self.layer}: {self.what}, {self.before:.3g} is now {self.after:.3g}"


@dataclass(frozen=True)
class Overflow:
    """A layer whose values FP16 cannot hold.

    Attributes:
        layer: the layer, operation, input or output, in words.
        op: TensorFlow's operation.
        peak: largest magnitude of a value, or of a sum on the way to one.
    """

    layer: str
    op: str
    peak: float

    @property
    def finding(self) -> str:
        """The finding in words."""
        return f"{self.layer} ({self.op}) reaches {self.peak:.3g}, FP16 ends at {FLOAT16.max:g}"


@dataclass(frozen=True)
class Repaired:
    """A model after a repair.

    Attributes:
        source: the model to convert; the original if nothing had to be repaired.
        changes: the changes, layer by layer.
        left: layers that still overflow, the worst first.
    """

    source: Source
    changes: tuple[Change, ...]
    left: tuple[Overflow, ...]


def repair_model(source: Source, batches: Batches) -> Repaired:
    """Rewrites the layers that overflow in FP16 on these samples.

    Args:
        source: the model.
        batches: function that gives the samples each time it is called; they are read up to five
            times.

    Returns:
        A model with the same float32 outputs, to the accuracy of float32.
    """
    seen = measure(source, batches())
    changes: list[Change] = []
    for what, rewrite in (
        ("mask kept finite", lambda seen: finite_masks),
        ("largest exponent taken out", lambda seen: tame_exponentials),
        ("scaled by powers of two", lambda seen: partial(rescale, seen=seen)),
    ):
        changed, after = _tried(source, rewrite(seen), batches)
        if changed is not None:
            changes += _changes(what, source, seen, changed, after)
            source, seen = changed, after
    return Repaired(source, tuple(changes), _overflows(source, seen))


def overflows(source: Source, batches: Iterable[Batch]) -> tuple[Overflow, ...]:
    """The layers that overflow in FP16 on these samples without a repair, the worst first."""
    source, _ = without_gaps(source)  # as it will be converted
    return _overflows(source, measure(source, batches))


def _tried(source: Source, rewrite: Rewrite, batches: Batches) -> tuple[Source | None, Magnitudes]:
    """The rewritten source and its magnitudes; None where nothing, or too much, has changed."""
    changed = source.rewritten(rewrite)
    if _operations(changed) == _operations(source) or not _same(source, changed, batches()):
        return None, {}
    return changed, measure(changed, batches())


def _operations(source: Source) -> int:
    """Rewrites only add operations: constants and products."""
    return sum(node.op in ("Const", "Mul") for node in Graph(source.graph, 0).nodes)


def _same(source: Source, changed: Source, batches: Iterable[Batch]) -> bool:
    for batch in batches:
        received = changed.forward(batch)
        for name, expected in source.forward(batch).items():
            if not np.issubdtype(expected.dtype, np.floating):
                if not np.array_equal(expected, received[name]):
                    return False
                continue
            finite = expected[np.isfinite(expected)]
            scale = float(np.abs(finite).max()) if finite.size else 1.0
            if not np.allclose(
                received[name], expected, rtol=0, atol=_FP32_TOLERANCE * scale, equal_nan=True
            ):
                return False
    return True


def _changes(
    what: str, source: Source, seen: Magnitudes, changed: Source, after: Magnitudes
) -> list[Change]:
    """The layers in which something became smaller that was too large, the worst first."""
    before, now = _worst_by_node(source, seen), _worst_by_node(changed, after)
    new = max((worst for name, worst in now.items() if name not in before), default=0.0)
    layers: dict[str, tuple[float, float]] = {}
    for name, worst in before.items():
        left = now.get(name, new)  # what is gone was said by new nodes
        if worst >= FLOAT16.overflow_threshold and left < worst:
            known = layers.get(_layer(name), (0.0, 0.0))
            layers[_layer(name)] = max(known, (worst, left))
    ordered = sorted(layers.items(), key=lambda item: -item[1][0])
    return [Change(layer, what, *values) for layer, values in ordered]


def _overflows(source: Source, seen: Magnitudes) -> tuple[Overflow, ...]:
    """One for each layer, input and output that has a value FP16 does not hold."""
    graph = Graph(source.graph, len(source.inputs))
    ends = {
        name: f"{kind} {spec.name}"
        for kind, names, specs in (
            ("output", graph.outputs, source.outputs),
            ("input", graph.inputs, source.inputs),
        )
        for name, spec in zip(names, specs, strict=True)
    }
    worst: dict[str, Overflow] = {}
    for node in _computed(graph):
        peak = worst_of(node, seen)
        where = next((ends[name] for name in node.outputs if name in ends), _layer(node.name))
        if peak >= FLOAT16.overflow_threshold and (where not in worst or peak > worst[where].peak):
            worst[where] = Overflow(where, node.op, peak)
    return tuple(sorted(worst.values(), key=lambda found: -found.peak))


def _worst_by_node(source: Source, seen: Magnitudes) -> dict[str, float]:
    graph = Graph(source.graph, len(source.inputs))
    return {node.name: worst_of(node, seen) for node in _computed(graph)}


def _computed(graph: Graph) -> Iterator[Node]:
    """The nodes that compute something of the input, each output once; constants fold."""
    for node in graph.nodes:
        if graph.constants.issuperset(node.outputs):
            continue
        given = any(name in graph.outputs for name in node.outputs)
        readers = [reader for name in node.outputs for reader in graph.readers(name)]
        handed_on = readers and all(
            reader.op == "Identity" and reader.outputs[0] in graph.outputs for reader in readers
        )
        if given or not (handed_on or node.op == "Identity"):
            yield node


def _layer(name: str) -> str:
    layer = layer_of(name)
    return f"layer {layer}" if layer else f"operation {name}"
