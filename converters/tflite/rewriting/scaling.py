"""Leaves the offset and scale of outputs to the host, so that FP16 holds what varies.

A temperature of 290 K that varies by 3 has steps of 0.25 in FP16, and 1e-9 is zero there. The file
gives what is left without offset and scale, folded into the last product, and the host puts them
back in float32.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node, Source
from tfmp.converters.shared.tensors import Batch, relative_l2
from tfmp.converters.tflite.file import HostScaling
from tfmp.converters.tflite.rewriting.ranges import constants, fetching
from tfmp.converters.tflite.rewriting.rescale import LOOKS_AT_THE_SHAPE
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

_ADDS = dict.fromkeys(("Add", "AddV2", "BiasAdd"), np.add) | {"Sub": np.subtract}
_AFFINE = {**_ADDS, "Mul": np.multiply, "RealDiv": np.divide}
# What gives values at other places, which one scale for all of them does not mind.
_MOVES = frozenset("Reshape Squeeze ExpandDims Transpose".split())
_PRODUCTS = frozenset(
    "MatMul BatchMatMul BatchMatMulV2 Einsum Conv2D DepthwiseConv2dNative".split()
)
# An output whose mean is so many standard deviations from zero loses two bits beside it.
_FAR = 4.0
# Relative L2 of an output: half of what `DriftBudget` allows, and ten times FP16's rounding.
_HARM = 5e-3


@dataclass(frozen=True)
class _Tail:
    """What lies between the last product, or another operation, and an output.

    Attributes:
        base: the tensor that it begins with.
        length: number of nodes behind it.
        scale: of the base.
        offset: beside the scaled base.
        whole: whether one scale is for all places of the last axis.
    """

    base: str
    length: int
    scale: np.ndarray
    offset: np.ndarray
    whole: bool


def leave_scaling(
    source: Source, batches: Callable[[], Iterable[Batch]]
) -> tuple[Source, dict[str, HostScaling]]:
    """The model without offsets and scales of its outputs, and what the host does instead.

    Args:
        source: the model.
        batches: gives the samples each time it is called; means and deviations are theirs.

    Returns:
        The source itself and nothing where no output stands beside an offset or outside FP16.
    """
    graph = Graph(source.graph, len(source.inputs))
    tails = _tails(source, graph)
    moments = _moments(source, list(tails), batches)
    chosen: dict[int, tuple[_Tail, bool, np.ndarray, np.ndarray]] = {}
    scaling = {}
    for place, output in enumerate(graph.outputs):
        if output not in tails or (not moments[output].far and not moments[output].lost):
            continue
        tail, product = tails[output], _is_product(tails[output].base, graph)
        plain = (tail.scale == 1).all() and not tail.offset.any()
        if plain and not product and not moments[output].lost:
            continue
        mean, deviation = moments[output].of(tail.whole)
        deviation = 2.0 ** np.ceil(np.log2(np.where(deviation > 0, deviation, 1.0)))
        chosen[place] = tail, product, tail.scale / deviation, (tail.offset - mean) / deviation
        scaling[source.outputs[place].name] = HostScaling(deviation, mean)

    def leave(graph: Graph, edits: Edits) -> None:
        # By places, because nodes have other names in other traces.
        for place, (tail, product, factor, summand) in chosen.items():
            tensor, passed = graph.outputs[place], []
            for _ in range(tail.length):
                node = graph.makers[tensor]
                tensor = next(name for name in node.inputs if name not in graph.constants)
                passed.append(replace(node, inputs=(tensor,)))
            maker = graph.makers[tensor]
            if product and _has_columns(maker, graph):
                edits.read(maker.inputs[1], [maker], _affine(factor, np.zeros(1)))
                factor = np.ones(1)
            base = passed[-1]
            for node in passed:
                given = _affine(factor, summand) if node is base else lambda x: x
                if node.op not in _MOVES:
                    edits.replace(node, given, graph)
                elif node is base:
                    edits.read(tensor, [node], given)

    return (source.rewritten(leave), scaling) if scaling else (source, {})


def _affine(factor: np.ndarray, summand: np.ndarray) -> Filling:
    """A tensor times a factor plus a summand."""

    def changed(x: Tensor) -> Tensor:
        x = x if (factor == 1).all() else x * factor.astype(np.float32)
        return x if (summand == 0).all() else x + summand.astype(np.float32)

    return changed


def _readers(tensor: str, graph: Graph) -> int:
    """Number of the nodes that read a tensor's values."""
    return sum(node.op not in LOOKS_AT_THE_SHAPE for node in graph.readers(tensor))


def _is_product(tensor: str, graph: Graph) -> bool:
    """Whether what is done to a tensor becomes part of the product that gives it."""
    node = graph.makers[tensor]
    if _readers(tensor, graph) > 1 or tensor in graph.outputs:  # others need it as it is
        return False
    if node.op in _ADDS:
        data = [name for name in node.inputs if name not in graph.constants]
        return len(data) == 1 and _is_product(data[0], graph)
    return node.op in _PRODUCTS


def _has_columns(node: Node, graph: Graph) -> bool:
    """Whether the last axis of a node's weights is that of its result."""
    turned = node.op == "MatMul" and node.attributes["transpose_b"].b
    return node.op in ("MatMul", "Conv2D") and node.inputs[1] in graph.constants and not turned


def _tails(source: Source, graph: Graph) -> dict[str, _Tail]:
    """What the host can do of each output, by the output's tensor."""
    read = {n for node in graph.nodes if node.op in _AFFINE for n in node.inputs}
    values = constants(source, sorted(read & graph.constants & graph.floats))
    own = [one for one in graph.outputs if one in graph.floats and graph.outputs.count(one) == 1]
    tails = {output: _tail(output, graph, values) for output in own}
    return {output: tail for output, tail in tails.items() if tail is not None}


def _tail(output: str, graph: Graph, values: Mapping[str, np.ndarray]) -> _Tail | None:
    tensor, whole = output, False
    length = 0
    scale, offset = np.ones(1), np.zeros(1)
    # Values that others read, too, are needed as they are.
    while _readers(tensor, graph) == min(length, 1):
        node = graph.makers[tensor]
        step = _step(node, graph, values)
        if step is None or (length and tensor in graph.outputs):
            break
        data, factor, shift, moves = step
        moved = whole or moves
        if moved and max(one.size for one in (scale, offset, factor, shift)) > 1:
            break
        scale, offset = scale * factor, scale * shift + offset
        whole, tensor, length = moved, data, length + 1
    return _Tail(tensor, length, scale, offset, whole) if length else None


_Step = tuple[str, np.ndarray, np.ndarray, bool]


def _step(node: Node, graph: Graph, values: Mapping[str, np.ndarray]) -> _Step | None:
    """The tensor that a node reads, the factor and summand of it, and whether places change."""
    if node.op in _MOVES | {"Identity"} and node.inputs[0] not in graph.constants:
        return node.inputs[0], np.ones(1), np.zeros(1), node.op in _MOVES
    known = [name in values for name in node.inputs]
    if node.op not in _AFFINE or sum(known) != 1:
        return None
    data, constant = node.inputs[known.index(False)], values[node.inputs[known.index(True)]]
    same = str(graph.specs[data].shape) == str(graph.specs[node.outputs[0]].shape)
    if not same or constant.size != (constant.shape or (1,))[-1]:
        return None
    numbers = constant.astype(np.float64).reshape(-1)

    def of(value: float) -> np.ndarray:
        given = np.full_like(numbers, value)
        return _AFFINE[node.op](*((given, numbers) if known[1] else (numbers, given)))

    with np.errstate(all="ignore"):
        shift, factor = of(0), of(1) - of(0)
    if not np.isfinite(shift).all() or not np.isfinite(factor).all() or not factor.all():
        return None
    return data, factor, shift, False


class _Moments:
    """Mean and standard deviation along the last axis, and the largest magnitude."""

    def __init__(self) -> None:
        self.count, self.total, self.squares, self.peak = 0, np.zeros(1), np.zeros(1), 0.0

    def see(self, values: np.ndarray) -> None:
        rows = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1).astype(np.float64)
        rows = rows[np.isfinite(rows).all(axis=1)]
        self.count += len(rows)
        self.total = self.total + rows.sum(axis=0)
        self.squares = self.squares + (rows**2).sum(axis=0)
        self.peak = max(self.peak, float(np.abs(rows).max(initial=0.0)))

    def of(self, whole: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation, of all places together if they are to have one scale."""
        mean, square = self.total / max(self.count, 1), self.squares / max(self.count, 1)
        variance = np.maximum(square - mean**2, 0)
        if whole:
            variance = np.mean(variance + mean**2, keepdims=True) - np.mean(mean) ** 2
            mean = np.mean(mean, keepdims=True)
        return mean, np.sqrt(variance)

    @property
    def far(self) -> bool:
        """Whether FP16 rounds the values beside an offset."""
        mean, deviation = self.of(whole=False)
        return bool(((np.abs(mean) > _FAR * deviation) & (deviation > 0)).any())

    @property
    def lost(self) -> bool:
        """Whether FP16 cannot hold them, or not what varies."""
        _, deviation = self.of(whole=False)
        small = (deviation > 0) & (deviation < FLOAT16.smallest_normal)
        return self.peak >= FLOAT16.overflow_threshold or bool(small.any())


def _moments(
    source: Source, names: list[str], batches: Callable[[], Iterable[Batch]]
) -> dict[str, _Moments]:
    found = {name: _Moments() for name in names}
    run = fetching(source, names)
    for batch in batches() if names else ():
        values = run(batch)
        for name, moments in found.items():
            moments.see(values[name])
    return found


def rounded_input(source: Source, batch: Batch) -> str:
    """An input whose rounding to FP16 alone changes an output too much; "" for none."""
    exact = source.forward(batch)
    for spec in source.inputs:
        if spec.dtype != "float32":
            continue
        with np.errstate(over="ignore"):
            rounded = batch[spec.name].astype(np.float16).astype(np.float32)
        for name, received in source.forward({**batch, spec.name: rounded}).items():
            if exact[name].dtype.kind == "f" and exact[name].shape == received.shape:
                error = relative_l2(exact[name], received)
                if not error <= _HARM:
                    return (
                        f"input {spec.name!r}, which alone changes output {name!r} by {error:.2g}"
                    )
    return ""
