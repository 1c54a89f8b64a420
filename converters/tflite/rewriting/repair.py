"""Rewrites a model whose FP16 arithmetic overflows, and measures it again.

A TFLite file for GPUs cannot mix precisions, so islands of FP32 do not help: the numbers themselves
must become smaller. In FP32 the rewritten model gives the same results as before.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfmp.converters.intake import Edits, Graph, Node, Rewrite, Source
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting.angles import angles, reduce_angles
from tfmp.converters.tflite.rewriting.exponentials import tame_exponentials
from tfmp.converters.tflite.rewriting.floors import floors, hold_floors
from tfmp.converters.tflite.rewriting.gaps import without_gaps
from tfmp.converters.tflite.rewriting.masks import finite_masks
from tfmp.converters.tflite.rewriting.ranges import Magnitudes, fetching, measure, worst_of
from tfmp.converters.tflite.rewriting.rescale import rescale
from tfmp.shared.numerics import FLOAT16

_END = FLOAT16.overflow_threshold
# A 16th of FP16's rounding: float32 in another order differs by a few units of 2**-24, a hundred
# times as much where the host adds an output's offset.
_FP32_TOLERANCE = 2.0**-15
# Of an input's values.
_VANISHING = 0.01
# FP16 rounds numbers by up to 2**-11: the difference of numbers so many times as large, by 3 %.
_CANCELS = 64
_TURNS = "whole turns taken out of an angle"
# The rounding of a number in FP16.
_FP16_TOLERANCE = 2.0**-11

Batches = Callable[[], Iterable[Batch]]


@dataclass(frozen=True)
class Change:
    """The change that was made in one layer.

    Attributes:
        layer: the layer, or an operation that belongs to no layer, in words.
        what: the change, such as "scaled by powers of two" or "mask kept finite".
        before: largest magnitude of a value, or of a sum on the way to one; or the limit.
        after: the same magnitude or limit in the changed model.
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

    def __str__(self) -> str:
        return f"{self.layer} ({self.op}) reaches {self.peak:.3g}, FP16 ends at {FLOAT16.max:g}"


@dataclass(frozen=True)
class Repaired:
    """A model after a repair.

    Attributes:
        source: the model to convert; the original if nothing had to be repaired.
        changes: the changes, layer by layer.
        left: layers that still overflow, the worst first.
        lost: what FP16 loses and no rewrite keeps, with the way out, in words.
        angles: changes that a repair of overflow would make to sines of large angles.
    """

    source: Source
    changes: tuple[Change, ...]
    left: tuple[Overflow, ...]
    lost: tuple[str, ...] = ()
    angles: tuple[Change, ...] = ()


def repair_model(source: Source, batches: Batches, overflow: bool = True) -> Repaired:
    """Rewrites what FP16 loses on these samples.

    Args:
        source: the model.
        batches: function that gives the samples each time it is called; they are read up to five
            times.
        overflow: rewrite layers that overflow, too, and not only the limits that FP16 lacks.

    Returns:
        A model with the same float32 outputs: to the accuracy of FP16 where a limit was changed,
        else to that of float32.
    """

    def converted(source: Source) -> Source:
        """The model as it will be converted; a repair looks at what comes before."""
        return source if overflow else without_gaps(source)[0]

    seen = measure(converted(source), batches())
    source, changes, lost = _held(source, seen, batches)
    if changes:
        seen = measure(converted(source), batches())
    if overflow and (turned := _turned(source, seen)):
        # The reference rounds its angles, too, to 24 bits.
        tolerance = _FP16_TOLERANCE + turned[0].before * 2.0**-22
        reduced = partial(reduce_angles, seen=seen)
        changed, after = _tried(source, reduced, batches, tolerance)
        if changed is not None:
            changes += turned
            source, seen = changed, after
    for what, rewrite in (
        ("mask kept finite", lambda seen: finite_masks),
        ("largest exponent taken out", lambda seen: tame_exponentials),
        ("scaled by powers of two", lambda seen: partial(rescale, seen=seen)),
    ):
        if not overflow:
            break
        changed, after = _tried(source, rewrite(seen), batches)
        if changed is not None:
            changes += _changes(what, _peaks(source, seen), _peaks(changed, after))
            source, seen = changed, after
    return Repaired(
        source,
        tuple(changes),
        _overflows(converted(source), seen),
        (*lost, *_lost_angles(source, seen), *_lost_values(source, seen)),
        tuple(_turned(source, seen)),
    )


def _turned(source: Source, seen: Magnitudes) -> list[Change]:
    """The changes that taking whole turns out of large angles makes, the largest first."""
    graph = Graph(source.graph, len(source.inputs))
    found = (
        Change(_layer(angle.node.name), _TURNS, seen[angle.node.outputs[0]].peak, math.pi)
        for angle in angles(graph, seen)
        if angle.fits
    )
    return sorted(set(found), key=lambda change: -change.before)


def _lost_angles(source: Source, seen: Magnitudes) -> dict[str, None]:
    """Layers with sines of positions that FP16 has rounded before, in words."""
    return {
        f"{_layer(angle.node.name)}: FP16 rounds the position, up to {angle.seen.peak:.3g}, before "
        "its sine is taken. Give the model the sines, or keep it in float32": None
        for angle in angles(Graph(source.graph, len(source.inputs)), seen)
        if not angle.fits
    }


def _lost_values(source: Source, seen: Magnitudes) -> dict[str, None]:
    """Inputs that FP16 makes zero, and differences of much larger numbers, in words."""
    graph = Graph(source.graph, len(source.inputs))
    told: dict[str, None] = {}
    for name, spec in zip(graph.inputs, source.inputs, strict=True):
        one = seen.get(name)
        if one is not None and one.vanished > _VANISHING * one.nonzero:
            told[
                f"input {spec.name}: FP16 makes zero of small numbers, such as {one.smallest:.3g}. "
                "Scale them before the model"
            ] = None
    for node in graph.nodes:
        if node.op == "Sub" and seen.keys() >= {*node.inputs, *node.outputs}:
            large = min(seen[name].peak for name in node.inputs)
            left = seen[node.outputs[0]].peak
            if 0 < left < large / _CANCELS:
                told[
                    f"{_layer(node.name)}: it subtracts numbers up to {large:.3g} that differ by "
                    f"{left:.3g}, and FP16 rounds them before. Subtract before squares and sums "
                    "are taken"
                ] = None
    return told


def _held(
    source: Source, seen: Magnitudes, batches: Batches
) -> tuple[Source, list[Change], tuple[str, ...]]:
    """The model with limits that FP16 holds, and the layers of those that cannot be moved."""
    found = {floor.name: floor for floor in floors(Graph(source.graph, len(source.inputs)), seen)}
    if not found:
        return source, [], ()

    def with_limits(names: Iterable[str], lose: bool = False) -> Source | None:
        """A model that differs from the source by less than FP16's rounding."""
        rewrite = partial(hold_floors, seen=seen, names=frozenset(names), lose=lose)
        changed = source.rewritten(rewrite)
        return changed if _same(source, changed, batches(), _FP16_TOLERANCE) else None

    moved = list(found)
    if (changed := with_limits(moved)) is None:
        moved = [name for name in found if with_limits([name])]
        changed = with_limits(moved)
    if changed is None:
        moved, changed = [], source
    lost = [name for name in found if name not in moved and with_limits([name], True) is None]
    limits = {name: found[name] for name in moved}
    changes = [
        Change(_layer(name), one.what, one.value, one.value if one.moved else one.held)
        for name, one in limits.items()
    ]
    told = [
        f"{_layer(name)}: FP16 makes {found[name].value:.3g} "
        f"{found[name].lost:g}, and the samples reach it. Write a limit from 6.1e-05 to 32768 in "
        "that layer, or scale its values before"
        for name in lost
    ]
    return changed, list(dict.fromkeys(changes)), tuple(dict.fromkeys(told))


def _tried(
    source: Source, rewrite: Rewrite, batches: Batches, tolerance: float = _FP32_TOLERANCE
) -> tuple[Source | None, Magnitudes]:
    """The rewritten source and its magnitudes; None where nothing, or too much, has changed."""
    graph = Graph(source.graph, len(source.inputs))
    edits = Edits(graph.graph_def)
    rewrite(graph, edits)
    changed = source.rewritten(rewrite) if edits.changed else source
    if changed is source or not _same(source, changed, batches(), tolerance):
        return None, {}
    return changed, measure(changed, batches())


def _same(
    source: Source, changed: Source, batches: Iterable[Batch], tolerance: float = _FP32_TOLERANCE
) -> bool:
    # `Source.forward` runs a trace with other names, which a rewrite by name does not reach.
    names = [Graph(one.graph, len(one.inputs)).outputs for one in (source, changed)]
    runs = [fetching(one, [*own]) for one, own in zip((source, changed), names, strict=True)]
    for batch in batches:
        answers = [run(batch) for run in runs]
        for before, after in zip(*names, strict=True):
            expected, received = answers[0][before], answers[1][after]
            if not np.issubdtype(expected.dtype, np.floating):
                if not np.array_equal(expected, received):
                    return False
                continue
            finite = expected[np.isfinite(expected)]
            scale = float(np.abs(finite).max()) if finite.size else 1.0
            if not np.allclose(received, expected, rtol=0, atol=tolerance * scale, equal_nan=True):
                return False
    return True


def _changes(
    what: str, before: Mapping[str, Overflow], after: Mapping[str, Overflow]
) -> list[Change]:
    """The layers in which something became smaller that was too large, the worst first."""
    pairs = ((one, after[where].peak if where in after else 0.0) for where, one in before.items())
    fitted = [(one, left) for one, left in pairs if one.peak >= _END and left < one.peak]
    ordered = sorted(fitted, key=lambda pair: -pair[0].peak)
    return [Change(one.layer, what, one.peak, left) for one, left in ordered]


def _overflows(source: Source, seen: Magnitudes) -> tuple[Overflow, ...]:
    """One for each layer, input and output that has a value FP16 does not hold."""
    found = (one for one in _peaks(source, seen).values() if one.peak >= _END)
    return tuple(sorted(found, key=lambda one: -one.peak))


def _peaks(source: Source, seen: Magnitudes) -> dict[str, Overflow]:
    """The largest value of each layer, input and output, whether FP16 holds it or not."""
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
        if where not in worst or peak > worst[where].peak:
            worst[where] = Overflow(where, node.op, peak)
    return worst


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
