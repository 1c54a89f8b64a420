"""Rewrites a model whose FP16 arithmetic overflows or rounds too much, and measures it again.

A TFLite file for GPUs cannot mix precisions, so islands of FP32 do not help: the numbers themselves
must become smaller. In FP32 the rewritten model gives the same results as before.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfmp.converters.intake import Graph, Node, Rewrite, Source
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting.angles import angles, reduce_angles
from tfmp.converters.tflite.rewriting.exponentials import tame_exponentials
from tfmp.converters.tflite.rewriting.floors import floors, hold_floors
from tfmp.converters.tflite.rewriting.gaps import without_gaps
from tfmp.converters.tflite.rewriting.masks import finite_masks
from tfmp.converters.tflite.rewriting.origins import cancelling, move_origin, moved_name, origins
from tfmp.converters.tflite.rewriting.ranges import Magnitudes, fetching, measure, worst_of
from tfmp.converters.tflite.rewriting.rescale import rescale
from tfmp.shared.numerics import FLOAT16

_END = FLOAT16.overflow_threshold
# A 16th of FP16's rounding: float32 in another order differs by a few units of 2**-24, a hundred
# times as much where the host adds an output's offset.
_FP32_TOLERANCE = 2.0**-15
# The rounding of a number in FP16.
_FP16_TOLERANCE = 2.0**-11
# The reference rounds, too: an angle once or twice, the sums whose difference is taken more often.
_FP32_ANGLE, _FP32_SUMS = 2.0**-22, 2.0**-20
# Of an input's values.
_VANISHING = 0.01
# Origins that are tried, each with all samples.
_MOST_ORIGINS = 8

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
        mendable: whether a repair of overflow has angles or offsets to work on.
    """

    source: Source
    changes: tuple[Change, ...]
    left: tuple[Overflow, ...]
    lost: tuple[str, ...] = ()
    mendable: bool = False


_Step = Callable[[Source, Magnitudes, Batches], tuple[Source, list[Change]]]


def repair_model(source: Source, batches: Batches, overflow: bool = True) -> Repaired:
    """Rewrites what FP16 loses on these samples.

    Args:
        source: the model.
        batches: function that gives the samples each time it is called; they are read for each
            rewrite that is tried.
        overflow: rewrite layers that overflow or round too much, too, and not only the limits that
            FP16 lacks.

    Returns:
        A model with the same float32 outputs: to the accuracy of FP16 where a limit, an angle or an
        origin was changed, else to that of float32.
    """

    def measured(source: Source) -> Magnitudes:
        """Of the model as it will be converted; a repair looks at what comes before."""
        return measure(source if overflow else without_gaps(source)[0], batches())

    seen, changes = measured(source), list[Change]()
    for step in (_limits, *(_STEPS if overflow else ())):
        changed, made = step(source, seen, batches)
        changes += made
        if changed is not source:
            source, seen = changed, measured(changed)
    graph = Graph(source.graph, len(source.inputs))
    lost = (
        *_lost_limits(source, seen, batches),
        *_lost_angles(graph, seen),
        *_lost_values(source, seen),
    )
    mendable = any(one.fits for one in angles(graph, seen)) or any(origins(graph, seen))
    looked_at = source if overflow else without_gaps(source)[0]
    left = _overflows(looked_at, seen)
    return Repaired(source, tuple(changes), left, tuple(dict.fromkeys(lost)), mendable)


def _limits(source: Source, seen: Magnitudes, batches: Batches) -> tuple[Source, list[Change]]:
    """Limits that FP16 lacks become ones that it holds."""
    found = {one.name: one for one in floors(Graph(source.graph, len(source.inputs)), seen)}

    def with_limits(names: Iterable[str]) -> Source | None:
        return _limited(source, seen, names, batches)

    moved = list(found)
    changed = with_limits(moved) if moved else None
    if moved and changed is None:
        moved = [name for name in found if with_limits([name])]
        changed = with_limits(moved)
    if changed is None:
        return source, []
    changes = [
        Change(_layer(name), one.what, one.value, one.value if one.moved else one.held)
        for name, one in found.items()
        if name in moved
    ]
    return changed, list(dict.fromkeys(changes))


def _limited(
    source: Source, seen: Magnitudes, names: Iterable[str], batches: Batches, lose: bool = False
) -> Source | None:
    """A model with other limits that differs from the source by less than FP16's rounding."""
    rewrite = partial(hold_floors, seen=seen, names=frozenset(names), lose=lose)
    changed = source.rewritten(rewrite)
    return changed if _same(source, changed, batches(), _FP16_TOLERANCE) else None


def _turns(source: Source, seen: Magnitudes, batches: Batches) -> tuple[Source, list[Change]]:
    """Whole turns are taken out of large angles."""
    found = {
        Change(_layer(one.node.name), _TURNS, seen[one.node.outputs[0]].peak, math.pi)
        for one in angles(Graph(source.graph, len(source.inputs)), seen)
        if one.fits
    }
    changes = sorted(found, key=lambda change: -change.before)
    if not changes:
        return source, []
    changed = source.rewritten(partial(reduce_angles, seen=seen))
    tolerance = _FP16_TOLERANCE + changes[0].before * _FP32_ANGLE
    return (changed, changes) if _same(source, changed, batches(), tolerance) else (source, [])


_TURNS = "whole turns taken out of an angle"


def _around(source: Source, seen: Magnitudes, batches: Batches) -> tuple[Source, list[Change]]:
    """Tensors get another origin, one after the other, where the outputs stay as they are."""
    changes, tried = list[Change](), set[tuple[str, object]]()
    words = _places(source, Graph(source.graph, len(source.inputs)))
    while len(tried) < _MOST_ORIGINS:
        graph = Graph(source.graph, len(source.inputs))
        candidate = next((one for one in origins(graph, seen) if one not in tried), None)
        if candidate is None:
            break
        tried.add(candidate)
        name, origin = candidate
        differences = [(large, seen[node.outputs[0]]) for node, large in cancelling(graph, seen)]
        lost = max([large / (one.width or one.peak) for large, one in differences], default=0.0)
        changed = source.rewritten(partial(move_origin, name=name, origin=origin))
        if _same(source, changed, batches(), _FP16_TOLERANCE + lost * _FP32_SUMS):
            before, seen = seen[name].peak, measure(changed, batches())
            source, moved = changed, moved_name(name)
            words[moved] = words.get(name, _layer(name))
            changes.append(Change(words[moved], _ORIGIN, before, seen[moved].peak))
    return source, changes


_ORIGIN = "offset that cancels taken out"


def _scaled(
    source: Source,
    seen: Magnitudes,
    batches: Batches,
    what: str,
    rewrite: Callable[[Magnitudes], Rewrite],
) -> tuple[Source, list[Change]]:
    """Values that FP16 cannot hold become smaller, in a model that gives the same in float32."""
    changed = source.rewritten(rewrite(seen))
    if _operations(changed) == _operations(source) or not _same(source, changed, batches()):
        return source, []
    before, after = _peaks(source, seen), _peaks(changed, measure(changed, batches()))
    return changed, _changes(what, before, after)


_STEPS: tuple[_Step, ...] = (
    _turns,
    _around,
    partial(_scaled, what="mask kept finite", rewrite=lambda seen: finite_masks),
    partial(_scaled, what="largest exponent taken out", rewrite=lambda seen: tame_exponentials),
    partial(
        _scaled,
        what="scaled by powers of two",
        rewrite=lambda seen: partial(rescale, seen=seen),
    ),
)


def _lost_limits(source: Source, seen: Magnitudes, batches: Batches) -> Iterator[str]:
    """Layers with limits that FP16 lacks and the samples reach, in words."""
    for one in floors(Graph(source.graph, len(source.inputs)), seen):
        if _limited(source, seen, [one.name], batches, lose=True) is None:
            yield (
                f"{_layer(one.name)}: FP16 makes {one.value:.3g} {one.lost:g}, and the samples "
                "reach it. Write a limit from 6.1e-05 to 32768 in that layer, or scale its values "
                "before"
            )


def _lost_angles(graph: Graph, seen: Magnitudes) -> Iterator[str]:
    """Layers with sines of positions that FP16 has rounded before, in words."""
    for angle in angles(graph, seen):
        if not angle.fits:
            yield (
                f"{_layer(angle.node.name)}: FP16 rounds the position, up to "
                f"{angle.seen.peak:.3g}, before its sine is taken. Give the model the sines, or "
                "keep it in float32"
            )


def _lost_values(source: Source, seen: Magnitudes) -> Iterator[str]:
    """Inputs that FP16 makes zero, and differences of much larger numbers, in words."""
    graph = Graph(source.graph, len(source.inputs))
    for name, spec in zip(graph.inputs, source.inputs, strict=True):
        one = seen.get(name)
        if one is not None and one.vanished > _VANISHING * one.nonzero:
            yield (
                f"input {spec.name}: FP16 makes zero of small numbers, such as {one.smallest:.3g}. "
                "Scale them before the model"
            )
    for node, large in cancelling(graph, seen):
        yield (
            f"{_layer(node.name)}: it subtracts numbers up to {large:.3g} that differ by "
            f"{seen[node.outputs[0]].peak:.3g}, and FP16 rounds them before. Subtract before "
            "squares and sums are taken"
        )


def _operations(source: Source) -> int:
    """Rewrites only add operations: constants and products."""
    return sum(node.op in ("Const", "Mul") for node in Graph(source.graph, 0).nodes)


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
    ends = _places(source, graph)
    worst: dict[str, Overflow] = {}
    for node in _computed(graph):
        peak = worst_of(node, seen)
        where = next((ends[name] for name in node.outputs if name in ends), _layer(node.name))
        if where not in worst or peak > worst[where].peak:
            worst[where] = Overflow(where, node.op, peak)
    return worst


def _places(source: Source, graph: Graph) -> dict[str, str]:
    """Inputs and outputs in words, by their tensors."""
    return {
        name: f"{kind} {spec.name}"
        for kind, names, specs in (
            ("output", graph.outputs, source.outputs),
            ("input", graph.inputs, source.inputs),
        )
        for name, spec in zip(names, specs, strict=True)
    }


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
    layer = layer_of(name.partition(":")[0])
    return f"layer {layer}" if layer else f"operation {name}"
