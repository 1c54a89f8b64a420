"""Moves powers of two through a graph until values that overflow or vanish in FP16 fit.

Most layers are homogeneous: if their input is scaled, their output is scaled by a known power. So a
tensor may be kept as 2**-k times its true value, or 2**k times, as long as every place that needs
the true value gets it back, and a product with a weight does that without cost. Multiplying by a
power of two is exact, so in FP32 the model gives the same results; in FP16 the values now fit:

    variance of 300 x: mean of squares near 90,000 -> kept as 2**-14 of it, near 5.5
    power of 1e-5 x:   mean of squares near 1e-10 -> kept as 2**28 of it, near 0.03

Two passes over the nodes. `_needs` goes backward and finds the smallest k with which each tensor
and each sum behind it fits. `_Scaler` goes forward and keeps every tensor at some k, by the rule
of its operation, absorbing the rest into weights. A value that cannot be scaled is left as it was.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node
from tfmp.converters.tflite.rewriting.ranges import SUMS, Magnitudes
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# Two powers of two stay free for samples that were not measured.
_ROOM_BINADES = 2
_LARGEST = FLOAT16.max / 2**_ROOM_BINADES

# Powers of two that FP16 holds with all of their digits.
_FP16_FACTOR = 14

# Weights and small constants keep at least this many powers of two above the smallest number.
_KEPT_BINADES = 6

# More than any exponent.
_ENDLESS = 2**30

# How the scale of a result follows from those of its float inputs.
# Of the first input alone; others are indices, paddings and the like.
_CARRIES = frozenset(
    "Identity StopGradient Relu LeakyRelu Neg Abs Reshape Transpose Squeeze ExpandDims Slice "
    "StridedSlice GatherV2 GatherNd MaxPool MaxPool3D AvgPool AvgPool3D Mean Sum Max Min Pad "
    "MirrorPad Tile BroadcastTo ResizeBilinear ResizeNearestNeighbor SpaceToBatchND BatchToSpaceND "
    "DepthToSpace SpaceToDepth SplitV Unpack ReverseV2 Cumsum".split()
)
# Of all float inputs, which must agree.
_AGREES = frozenset(
    "Add AddV2 AddN Sub BiasAdd Maximum Minimum ConcatV2 Pack SelectV2 Select Split".split()
)
_MULTIPLIES = frozenset(
    "Mul MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv3D DepthwiseConv2dNative "
    "Conv2DBackpropInput Conv3DBackpropInputV2 Einsum".split()
)
_DIVIDES = frozenset(("RealDiv", "DivNoNan"))
_POWERS = {
    "Square": Fraction(2),
    "SquaredDifference": Fraction(2),
    "Sqrt": Fraction(1, 2),
    "Rsqrt": Fraction(-1, 2),
}
# A cube root is 0.33333334 in float32.
_LARGEST_ROOT = 16
# Whatever the values are.
LOOKS_AT_THE_SHAPE = frozenset(("Shape", "ShapeN", "Size", "Rank"))


def rescale(graph: Graph, edits: Edits, seen: Magnitudes, vanishing: Collection[str] = ()) -> None:
    """Scales values that FP16 cannot hold until they fit; a `Rewrite` once the rest is bound.

    Args:
        graph: the graph as it is.
        edits: takes the changes.
        seen: magnitudes by tensor; tensors that are not in it stay as they are.
        vanishing: tensors to make larger, by name. Without any, those that are too large for FP16
            become smaller.
    """
    way = _Way(seen, vanishing)
    needs = _needs(graph, way)
    if any(needs.values()):
        _Scaler(graph, edits, way, needs).scale()


@dataclass(frozen=True)
class _Way:
    """Down, tensors with exponent k are kept as 2**-k times their true value; up, as 2**k times.

    Attributes:
        seen: magnitudes by tensor.
        vanishing: tensors that become larger, on the way up.
    """

    seen: Magnitudes
    vanishing: Collection[str]

    @property
    def sign(self) -> int:
        """Of the power of two that takes an exponent back."""
        return -1 if self.vanishing else 1

    def need(self, name: str) -> int:
        """The smallest exponent with which FP16 holds a tensor."""
        if not self.vanishing:
            return _over(self.seen[name].peak)
        if name not in self.vanishing:
            return 0
        missing = math.log2(FLOAT16.smallest_normal / self.seen[name].smallest)
        return min(max(0, math.ceil(missing)), self.limit(name))

    def need_of_sum(self, name: str) -> int:
        """That with which FP16 holds any sum over a tensor."""
        return _over(self.seen[name].hidden) if name in self.seen and not self.vanishing else 0

    def limit(self, name: str) -> int:
        """The largest exponent that a tensor may have."""
        one = self.seen.get(name)
        if not self.vanishing or one is None or not one.peak:
            return _ENDLESS
        return _room(max(one.peak, one.hidden))

    def span(self, weights: str) -> tuple[int, int]:
        """The smallest and largest exponents of weights: most of their values stay normal."""
        peak = self.seen[weights].peak if weights in self.seen else 0.0
        up, down = _room(peak), _binades(peak, FLOAT16.smallest_normal * 2**_KEPT_BINADES)
        return (-down, up) if self.vanishing else (-up, down)

    def most_added(self, constant: str) -> int:
        """The largest exponent of a constant that is added and must not vanish."""
        one = self.seen.get(constant)
        if self.vanishing or one is None or not one.peak:
            return self.limit(constant)
        return _binades(one.peak, FLOAT16.smallest_subnormal * 2**_KEPT_BINADES)

    def extreme(self, names: Sequence[str]) -> str:
        """The largest tensor, or the smallest on the way up."""
        peaks = {name: self.seen[name].peak if name in self.seen else 0.0 for name in names}
        return max(names, key=lambda name: self.sign * peaks[name])


def _needs(graph: Graph, way: _Way) -> dict[str, int]:
    """The smallest exponent with which each tensor, and the tensors made from it, fit."""
    needs = {name: way.need(name) for name in way.seen if name not in graph.constants}
    for node in reversed(graph.nodes):
        need = max((needs.get(name, 0) for name in node.outputs), default=0)
        for name, exponent in _asks(node, need, graph, way):
            needs[name] = max(needs.get(name, 0), min(exponent, way.limit(name)))
    return needs


def _asks(node: Node, need: int, graph: Graph, way: _Way) -> list[tuple[str, int]]:
    """The exponents that a node's inputs need for its result to have the exponent it needs."""
    data = _data_inputs(node, graph)
    if not data:
        return []
    if node.op in _CARRIES:
        return [(data[0], max(need, way.need_of_sum(data[0]) if node.op in SUMS else 0))]
    if node.op in _AGREES:
        return [(name, need) for name in data]
    if (power := _power(node, way.seen)) > 0:
        return [(name, math.ceil(need / power)) for name in data]
    if node.op in _MULTIPLIES and need:
        if len(set(data)) < len(data):  # a square, written as a product
            return [(data[0], math.ceil(need / 2))]
        weights = _constant_inputs(node, graph)
        absorbed = way.span(weights[0])[1] if weights else 0
        return [(way.extreme(data), max(0, need - absorbed))]
    if node.op in _DIVIDES and node.inputs[0] in data:
        return [(node.inputs[0], need)]
    return []


class _Scaler:
    """Gives every tensor an exponent, by which the graph then holds another than its true value."""

    def __init__(self, graph: Graph, edits: Edits, way: _Way, needs: dict[str, int]) -> None:
        self._graph, self._edits, self._way, self._needs = graph, edits, way, needs
        self._kept: dict[str, int] = {}

    def scale(self) -> None:
        """Rewrites the inputs of every node, and the outputs of the graph."""
        for node in self._graph.nodes:
            if self._graph.constants.issuperset(node.outputs):
                continue
            blind = node.op in LOOKS_AT_THE_SHAPE or not _data_inputs(node, self._graph)
            exponent = 0 if blind else self._exponent_of(node)
            self._kept.update(dict.fromkeys(node.outputs, exponent))
        for name in self._graph.outputs:
            if exponent := self._missing(name, 0):
                self._edits.outputs[name] = power_of_two(exponent)

    def _exponent_of(self, node: Node) -> int:
        """Sets the node's inputs and returns the exponent of its outputs."""
        data = _data_inputs(node, self._graph)
        if node.op in _CARRIES and data[0] == _float_inputs(node, self._graph)[0]:
            exponent = min(self._wanted(data[0]), self._limit_of(node))
            self._feed(node, {data[0]: exponent})
            return exponent
        if node.op in _AGREES:
            return self._agree(node, data)
        if power := _power(node, self._way.seen):
            step = power.denominator  # the result has a whole exponent, too
            exponent = -(-max(map(self._wanted, data)) // step) * step
            if power > 0:
                exponent = min(exponent, self._limit_of(node) // power // step * step)
            bases = data if node.op == "Pow" else _float_inputs(node, self._graph)
            self._feed(node, dict.fromkeys(bases, exponent))
            return int(exponent * power)
        if node.op in _MULTIPLIES and len(_float_inputs(node, self._graph)) == 2:
            return self._multiply(node, data)
        if node.op in _DIVIDES:
            return self._divide(node)
        if node.op == "Log":
            return self._shift(node, self._way.sign * self._kept[data[0]] * math.log(2))
        if node.op == "Exp" and (exponent := min(self._need_of(node), self._limit_of(node))):
            return self._shifted(node, exponent)
        self._feed(node, dict.fromkeys(data, 0))  # not homogeneous: it needs the true values
        return 0

    def _agree(self, node: Node, data: Sequence[str]) -> int:
        exponent = max(map(self._wanted, data))
        for name in _constant_inputs(node, self._graph):
            # An epsilon that vanished would not protect what it is added to any more.
            exponent = min(exponent, max(self._way.most_added(name), 0))
        exponent = max(exponent, self._need_of(node))
        exponent = min(exponent, self._limit_of(node), *map(self._way.limit, data))
        self._feed(node, dict.fromkeys(_float_inputs(node, self._graph), exponent))
        return exponent

    def _multiply(self, node: Node, data: Sequence[str]) -> int:
        need, limit = self._need_of(node), self._limit_of(node)
        if len(set(data)) < len(data):
            exponent = min(max(self._kept[data[0]], math.ceil(need / 2)), limit // 2)
            self._feed(node, {data[0]: exponent})
            return 2 * exponent
        weights = _constant_inputs(node, self._graph)
        if not weights:
            first, second = data
            missing = max(0, need - self._kept[first] - self._kept[second])
            missing = min(missing, limit - self._kept[first] - self._kept[second])
            extreme = self._way.extreme(data)
            exponents = {name: self._kept[name] + missing * (name == extreme) for name in data}
            self._feed(node, exponents)
            return exponents[first] + exponents[second]
        missing = need - self._kept[data[0]]
        least, most = self._way.span(weights[0])
        absorbed = min(max(missing, least), most)
        exponent = min(self._kept[data[0]] + max(0, missing - absorbed), limit - absorbed)
        self._feed(node, {data[0]: exponent, weights[0]: absorbed})
        return exponent + absorbed

    def _shift(self, node: Node, shift: float) -> int:
        """Adds to a logarithm what its operand's scale takes away."""
        import tensorflow as tf

        if shift:
            self._edits.replace(node, lambda x: tf.math.log(x) + shift, self._graph)
        return 0

    def _shifted(self, node: Node, exponent: int) -> int:
        """Gives an exponential its scale by a summand of its exponent."""
        import tensorflow as tf

        summand = -self._way.sign * exponent * math.log(2)
        true = power_of_two(self._missing(node.inputs[0], 0))
        self._edits.replace(node, lambda x: tf.exp(true(x) + summand), self._graph)
        return exponent

    def _divide(self, node: Node) -> int:
        above, below = node.inputs
        need, under = self._need_of(node), self._kept.get(below, 0)
        exponent = need + under
        if above in self._kept:  # its true value may not fit
            exponent = min(max(exponent, self._wanted(above)), self._way.limit(above))
        if below in self._graph.constants:
            least, most = self._way.span(below)
            under = min(max(exponent - need, least), most)
        self._feed(node, {above: exponent, below: under})
        return exponent - under

    def _need_of(self, node: Node) -> int:
        return max(self._needs.get(name, 0) for name in node.outputs)

    def _limit_of(self, node: Node) -> int:
        return min(map(self._way.limit, node.outputs))

    def _wanted(self, name: str) -> int:
        return max(self._kept[name], self._needs.get(name, 0))

    def _feed(self, node: Node, exponents: dict[str, int]) -> None:
        for name, exponent in exponents.items():
            if missing := self._missing(name, exponent):
                self._edits.read(name, [node], power_of_two(missing))

    def _missing(self, name: str, exponent: int) -> int:
        """The power of two that takes a tensor to this exponent."""
        return self._way.sign * (self._kept.get(name, 0) - exponent)


@cache
def power_of_two(exponent: int) -> Filling:
    """Multiplies by 2**exponent, in steps that FP16 holds with all of their digits."""

    def scaled(x: Tensor) -> Tensor:
        left = exponent
        while left:
            step = max(min(left, _FP16_FACTOR), -_FP16_FACTOR)
            x, left = x * 2.0**step, left - step
        return x

    return scaled


def _power(node: Node, seen: Magnitudes) -> Fraction:
    """The power to which an operation raises a scale; 0 for another operation."""
    if node.op != "Pow":
        return _POWERS.get(node.op, Fraction(0))
    known = seen[node.inputs[1]].value if node.inputs[1] in seen else None
    if known is None or known.size != 1 or not np.isfinite(known).all():
        return Fraction(0)
    power = Fraction(float(known.item())).limit_denominator(_LARGEST_ROOT)
    return power if math.isclose(power, known.item(), rel_tol=1e-6) else Fraction(0)


def _float_inputs(node: Node, graph: Graph) -> list[str]:
    return [name for name in node.inputs if name in graph.floats]


def _data_inputs(node: Node, graph: Graph) -> list[str]:
    return [name for name in _float_inputs(node, graph) if name not in graph.constants]


def _constant_inputs(node: Node, graph: Graph) -> list[str]:
    return [name for name in _float_inputs(node, graph) if name in graph.constants]


def _over(value: float) -> int:
    """The smallest k for which value * 2**-k leaves room below the largest FP16 number."""
    return max(0, math.ceil(math.log2(value / _LARGEST))) if value > 0 else 0


def _room(value: float) -> int:
    """The largest k for which value * 2**k does."""
    return _binades(_LARGEST, value) if value > 0 else 0


def _binades(value: float, end: float) -> int:
    """The whole powers of two from a number down to another one, not below zero."""
    return max(0, math.floor(math.log2(value / end))) if value > 0 else 0
