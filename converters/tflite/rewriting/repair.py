"""Rewrites a model whose FP16 arithmetic overflows or rounds too much, and measures it again.

A TFLite file for GPUs cannot mix precisions, so islands of FP32 do not help: the numbers themselves
must become smaller. In FP32 the rewritten model gives the same results as before.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

import numpy as np

from tfmp.converters.intake import Edits, Graph, Node, Rewrite, Source
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting.angles import angles, reduce_angles
from tfmp.converters.tflite.rewriting.floors import floors, hold_floors
from tfmp.converters.tflite.rewriting.gaps import without_gaps
from tfmp.converters.tflite.rewriting.origins import (
    cancelling,
    lose_small,
    move_origin,
    moved_name,
    origins,
)
from tfmp.converters.tflite.rewriting.ranges import (
    VANISHING,
    Magnitudes,
    fetching,
    measure,
    worst_of,
)
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
# Origins that are tried, and layers that may vanish, each with all samples.
_MOST_TRIED = 8
# Steps that small numbers are rounded to, and the share of them that must become zero: by FP16, and
# by hardware that makes zero of subnormal numbers.
_VANISHED = (FLOAT16.smallest_subnormal, VANISHING)
_FLUSHED = (FLOAT16.smallest_normal, 0.0)
# Of an output's largest value: what `DriftBudget` allows.
_HARM = 1e-2

Batches = Callable[[], Iterable[Batch]]


@dataclass(frozen=True)
class Change:
    """The change that was made in one layer.

    Attributes:
        layer: the layer, or an operation that belongs to no layer, in words.
        what: the change, such as "scaled by powers of two".
        before: largest magnitude of a value, or of a sum on the way to one; smallest magnitude of
            values that vanish; or the limit.
        after: the same magnitude or limit in the changed model.
    """

    layer: str
    what: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"repaired {self.layer}: {self.what}, {self.before:.3g} is now {self.after:.3g}"


@dataclass(frozen=True)
class Lost:
    """A layer whose values FP16 cannot hold, or makes zero to the harm of an output.

    Attributes:
        layer: the layer, operation, input or output, in words.
        op: TensorFlow's operation.
        value: largest magnitude of a value, or of a sum on the way to one; of values that vanish
            the smallest other than zero.
    """

    layer: str
    op: str
    value: float

    def __str__(self) -> str:
        if self.value > 1:
            return f"{self.layer} ({self.op}) reaches {self.value:.3g}, FP16 ends at 65504"
        told = f"{self.layer} ({self.op}) goes down to {self.value:.3g}"
        return f"vanishes in FP16: {told}, and zero in its place changes an output"


@dataclass(frozen=True)
class Repaired:
    """A model after a repair.

    Attributes:
        source: the model to convert, without gaps; the original if nothing had to be changed.
        changes: the changes, layer by layer.
        left: layers that still overflow, the worst first.
        vanishing: the first layer of which FP16 makes zero, to the harm of an output, if any.
        lost: what FP16 loses and no rewrite keeps, with the way out, in words.
        notes: what `without_gaps` changed before, in words.
    """

    source: Source
    changes: tuple[Change, ...]
    left: tuple[Lost, ...]
    vanishing: tuple[Lost, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Model:
    """A model and the values of its tensors on the samples, once they are asked for."""

    source: Source
    batches: Batches

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.source.graph, len(self.source.inputs))

    @cached_property
    def seen(self) -> Magnitudes:
        return measure(self.source, self.batches())

    @cached_property
    def ends(self) -> dict[str, str]:
        """Inputs and outputs in words, by their tensors."""
        return {
            name: f"{kind} {spec.name}"
            for kind, names, specs in (
                ("output", self.graph.outputs, self.source.outputs),
                ("input", self.graph.inputs, self.source.inputs),
            )
            for name, spec in zip(names, specs, strict=True)
        }

    @cached_property
    def peaks(self) -> dict[str, Lost]:
        """The largest value of each layer, input and output, whether FP16 holds it or not."""
        worst: dict[str, Lost] = {}
        for node in _computed(self.graph):
            peak = worst_of(node, self.seen)
            ends = (self.ends[name] for name in node.outputs if name in self.ends)
            where = next(ends, _layer(node.name))
            if where not in worst or peak > worst[where].value:
                worst[where] = Lost(where, node.op, peak)
        return worst

    @property
    def left(self) -> tuple[Lost, ...]:
        """Those that FP16 cannot hold, the worst first."""
        past = (one for one in self.peaks.values() if one.value >= _END)
        return tuple(sorted(past, key=lambda one: -one.value))

    def rewritten(self, rewrite: Rewrite, tolerance: float) -> "_Model | None":
        """The rewritten model, if no output differs by more than a share of its largest value."""
        applied = list[bool]()

        def noted(graph: Graph, edits: Edits) -> None:
            rewrite(graph, edits)
            applied.append(edits.changed)

        changed = replace(self, source=self.source.rewritten(noted))
        traced = changed.graph  # which applies the rewrite
        return changed if traced and any(applied) and _same(self, changed, tolerance) else None


_Step = Callable[[_Model], tuple[_Model, list[Change]]]


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
    filled, notes = without_gaps(source)
    model, changes = _Model(filled, batches), list[Change]()
    for step in (_limits, *(_STEPS if overflow else ())):
        model, made = step(model)
        changes += made
    lost = dict.fromkeys((*_lost_values(model), *_lost_angles(model)))
    zeros = _first(model, *_VANISHED)
    return Repaired(model.source, tuple(changes), model.left, zeros, tuple(lost), notes)


def _limits(model: _Model) -> tuple[_Model, list[Change]]:
    """Limits that FP16 lacks become ones that it holds."""
    found = {one.node.name: one for one in floors(model.graph, model.seen)}
    moved = list(found)
    changed = _limited(model, moved) if moved else None
    if moved and changed is None:
        moved = [name for name in found if _limited(model, [name])]
        changed = _limited(model, moved)
    if changed is None:
        return model, []
    changes = [
        Change(_layer(name), one.what, one.value, one.value if one.moved else one.held)
        for name, one in found.items()
        if name in moved
    ]
    return changed, list(dict.fromkeys(changes))


def _limited(model: _Model, names: Collection[str]) -> _Model | None:
    return model.rewritten(partial(hold_floors, seen=model.seen, names=names), _FP16_TOLERANCE)


def _turns(model: _Model) -> tuple[_Model, list[Change]]:
    """Whole turns are taken out of large angles."""
    found = {
        Change(
            _layer(one.node.name),
            "whole turns taken out of an angle",
            model.seen[one.node.outputs[0]].peak,
            math.pi,
        )
        for one in angles(model.graph, model.seen)
        if one.fits
    }
    changes = sorted(found, key=lambda change: -change.before)
    if not changes:
        return model, []
    tolerance = _FP16_TOLERANCE + changes[0].before * _FP32_ANGLE
    changed = model.rewritten(partial(reduce_angles, seen=model.seen), tolerance)
    return (changed, changes) if changed else (model, [])


def _around(model: _Model) -> tuple[_Model, list[Change]]:
    """Tensors get another origin, one after the other, where the outputs stay as they are."""
    changes, tried, words = list[Change](), set[tuple[str, object]](), dict(model.ends)
    while len(tried) < _MOST_TRIED:
        graph, seen = model.graph, model.seen
        candidate = next((one for one in origins(graph, seen) if one not in tried), None)
        if candidate is None:
            break
        tried.add(candidate)
        name, origin = candidate
        differences = [(large, seen[node.outputs[0]]) for node, large in cancelling(graph, seen)]
        lost = max([large / (one.width or one.peak) for large, one in differences], default=0.0)
        rewrite = partial(move_origin, name=name, origin=origin)
        changed = model.rewritten(rewrite, _FP16_TOLERANCE + lost * _FP32_SUMS)
        moved = moved_name(name)
        if changed and moved in changed.seen:  # else no output needs it
            model = changed
            words[moved] = words.get(name, _layer(name))
            after = changed.seen[moved].peak
            what = "offset that cancels taken out"
            changes.append(Change(words[moved], what, seen[name].peak, after))
    return model, changes


def _made_smaller(model: _Model) -> tuple[_Model, list[Change]]:
    """Values that FP16 cannot hold become smaller, in a model that gives the same in float32."""
    changed = model.rewritten(partial(rescale, seen=model.seen), _FP32_TOLERANCE)
    if changed is None:
        return model, []
    pairs = [(one, changed.peaks.get(one.layer)) for one in model.left]
    return changed, [
        Change(one.layer, _BY_POWERS, one.value, after.value if after else 0.0)
        for one, after in pairs
        if after is None or 2 * after.value <= one.value
    ]


def _enlarged(model: _Model) -> tuple[_Model, list[Change]]:
    """Values that vanish in FP16, to the harm of an output, become larger."""
    changes = list[Change]()
    for limits in (_VANISHED, _FLUSHED):
        harmful = dict(_harmful(model, *limits))
        if not harmful:
            continue
        rewrite = partial(rescale, seen=model.seen, vanishing=harmful.keys())
        changed = model.rewritten(rewrite, _FP32_TOLERANCE)
        if changed is None or len(changed.left) > len(model.left):
            continue
        if not dict(_harmful(changed, *limits)).keys() < harmful.keys():
            continue
        changes += [
            Change(
                model.ends.get(name, _layer(node.name)),
                _BY_POWERS,
                model.seen[name].smallest,
                changed.seen[name].smallest,
            )
            for name, node in harmful.items()
            if name in changed.seen
        ]
        model = changed
    return model, changes


_BY_POWERS = "scaled by powers of two"
_STEPS: tuple[_Step, ...] = (
    _turns,
    _around,
    _made_smaller,
    _enlarged,
)


def _lost_angles(model: _Model) -> Iterator[str]:
    """Layers with sines of positions that FP16 has rounded before, in words."""
    for angle in angles(model.graph, model.seen):
        if not angle.fits:
            yield (
                f"{_layer(angle.node.name)}: FP16 rounds the position, up to "
                f"{angle.seen.peak:.3g}, before its sine is taken. Give the model the sines, or "
                "keep it in float32"
            )


def _lost_values(model: _Model) -> Iterator[str]:
    """Differences of much larger numbers, in words."""
    for node, large in cancelling(model.graph, model.seen):
        yield (
            f"{_layer(node.name)}: it subtracts numbers up to {large:.3g} that differ by "
            f"{model.seen[node.outputs[0]].peak:.3g}, and FP16 rounds them before. Subtract before "
            "squares and sums are taken"
        )


def first_vanishing(source: Source, batches: Batches) -> tuple[Lost, ...]:
    """The first layer, if any, that harms where hardware makes zero of subnormal FP16 numbers."""
    return _first(_Model(source, batches), *_FLUSHED)


def _first(model: _Model, step: float, share: float) -> tuple[Lost, ...]:
    return tuple(
        Lost(model.ends.get(name, _layer(node.name)), node.op, model.seen[name].smallest)
        for name, node in islice(_harmful(model, step, share), 1)
    )


def _harmful(model: _Model, step: float, share: float) -> Iterator[tuple[str, Node]]:
    """Tensors whose small numbers change an output where only they are rounded to steps.

    Most of what vanishes is harmless, such as probabilities; the first is given if all harm only
    together.
    """
    graph, seen = model.graph, model.seen
    small = [
        (name, node)
        for node in graph.nodes
        for name in node.outputs
        if name in seen and name not in graph.constants and graph.readers(name)
        if seen[name].smallest < step / 2 and seen[name].vanishing >= share
    ]

    def keeps(names: Collection[str]) -> _Model | None:
        return model.rewritten(partial(lose_small, names=names, step=step), _HARM)

    if not small or keeps([name for name, _ in small]):
        return
    harmful = (one for one in small[:_MOST_TRIED] if not keeps([one[0]]))
    yield next(harmful, small[0])
    yield from harmful


def _same(one: _Model, changed: _Model, tolerance: float) -> bool:
    # `Source.forward` runs a trace with other names, which a rewrite by name does not reach.
    runs = [fetching(each.source, [*each.graph.outputs]) for each in (one, changed)]
    for batch in one.batches():
        answers = [run(batch) for run in runs]
        for before, after in zip(one.graph.outputs, changed.graph.outputs, strict=True):
            expected, received = answers[0][before], answers[1][after]
            if expected.dtype.kind != "f":
                if not np.array_equal(expected, received):
                    return False
                continue
            finite = np.abs(expected[np.isfinite(expected)])
            most = tolerance * (float(finite.max()) if finite.size else 1.0)
            if not np.allclose(received, expected, rtol=0, atol=most, equal_nan=True):
                return False
    return True


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
