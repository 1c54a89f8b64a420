"""Sines of a position or time that is multiplied by a frequency, with angles that FP16 can hold.

FP16 rounds an angle of 1,000 by up to 0.25, a twenty-fifth of a turn. A sine needs the fraction of
the turn only, and the product of a digit of the position and a frequency of few bits is exact:

    position 777 = 24 * 32 + 9;  turns = fraction(24 * rate(32 f)) + fraction(9 * rate(f))
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.intake import Edits, Graph, Node
from tfmp.converters.tflite.rewriting.masks import only_reaches
from tfmp.converters.tflite.rewriting.ranges import Magnitude, Magnitudes
from tfmp.shared.backend import Tensor

# An angle from here on is rounded by more than the reduced one is off: 0.004, where it is 0.002.
_LARGE = 8.0
# Positions are taken apart into digits to this base, which leaves products with these steps exact.
_BASE = 32
_STEP = 2.0**-5
# From here on FP16 does not hold all whole numbers.
_WHOLE = 2048

_PRODUCTS = frozenset(("Mul", "RealDiv", "MatMul", "BatchMatMulV2"))
# So many products with these steps are added exactly.
_ROWS = 4
_TURNS = frozenset(("Sin", "Cos"))
_PASSES = frozenset(
    "Identity Reshape Transpose ExpandDims Squeeze BroadcastTo Tile StridedSlice ConcatV2 Pack Add "
    "AddV2 BiasAdd Sub".split()
)


@dataclass(frozen=True)
class Angle:
    """A product with constants that only sines and cosines are taken of.

    Attributes:
        node: the product.
        position: the tensor that is multiplied, before any constant.
        frequencies: the product of the constants, which it is multiplied by.
        matrix: whether they are the matrix of a product of rows and columns.
        integers: the integers that the position is cast from, if it is.
        seen: magnitude of the position.
    """

    node: Node
    position: str
    frequencies: np.ndarray
    matrix: bool
    integers: str | None
    seen: Magnitude

    @property
    def fits(self) -> bool:
        """Whether FP16 holds the position; if not, its sine is lost before the product."""
        if self.matrix and len(self.frequencies) > _ROWS:
            return False
        if self.integers is not None:
            return self.seen.step == 1
        return self.seen.step > 0 and self.seen.peak / self.seen.step <= _WHOLE


def angles(graph: Graph, seen: Magnitudes) -> Iterator[Angle]:
    """The angles that FP16 rounds too much."""
    for node in graph.nodes:
        found = _factors(node, graph, seen)
        result = seen.get(node.outputs[0]) if node.outputs else None
        if found is None or result is None or result.peak < _LARGE:
            continue
        if not only_reaches(node.outputs, graph, _TURNS, _PASSES):
            continue
        position, frequencies = found
        maker = graph.makers[position]
        while len(graph.readers(position)) == 1 and (inner := _factors(maker, graph, seen)):
            if inner[1].size > 1:
                break
            position, frequencies = inner[0], frequencies * inner[1].item()
            maker = graph.makers[position]
        if position in seen:
            cast = maker.op == "Cast" and graph.specs[maker.inputs[0]].dtype.is_integer
            integers = maker.inputs[0] if cast else None
            matrix = "MatMul" in node.op and len(frequencies) > 1
            yield Angle(node, position, frequencies, matrix, integers, seen[position])


def reduce_angles(graph: Graph, edits: Edits, seen: Magnitudes) -> None:
    """Takes whole turns out of large angles before they are rounded; a `Rewrite` once bound."""
    for angle in angles(graph, seen):
        if angle.fits:
            given = angle.position
            if angle.integers is not None and angle.seen.peak > _WHOLE:
                given = angle.integers
            edits.replace(replace(angle.node, inputs=(given,)), _reduced(angle), graph)


def _factors(node: Node, graph: Graph, seen: Magnitudes) -> tuple[str, np.ndarray] | None:
    """The tensor and the constants whose product, with each other's shapes, a node gives."""
    if node.op not in _PRODUCTS or not graph.floats.issuperset(node.inputs):
        return None
    values = [seen[name].value if name in seen else None for name in node.inputs]
    known = [value is not None for value in values]
    if sum(known) != 1 or (known[0] and node.op != "Mul"):
        return None
    constant = np.asarray(values[known.index(True)], np.float64)
    if node.op == "RealDiv":
        with np.errstate(divide="ignore"):
            constant = 1 / constant
    if "MatMul" in node.op:
        turned = node.attributes["transpose_b"].b or node.attributes["adj_y"].b
        if constant.ndim != 2 or turned:
            return None
    return node.inputs[known.index(False)], constant


def _reduced(angle: Angle) -> Callable[[Tensor], Tensor]:
    import tensorflow as tf

    step = angle.seen.step
    frequencies = angle.frequencies * step
    count = max(2, math.ceil(math.log(max(2 * angle.seen.peak / step, 2), _BASE)))

    def times(digits: Tensor, rates: np.ndarray) -> Tensor:
        given = rates.astype(np.float32)
        return tf.matmul(digits, given) if angle.matrix else digits * given

    def reduced(position: Tensor) -> Tensor:
        whole = position.dtype.is_integer
        turns = 0.0
        if whole:
            position = tf.cast(position, tf.int32)
        elif angle.integers is None:  # others than those seen may have fractions
            position = position * (1 / step) if step < 1 else position
            below = tf.floor(position)
            turns = times(position - below, frequencies / (2 * math.pi))
            position = below
        for place in range(count):
            digit = position
            if place < count - 1:
                above = position // _BASE if whole else tf.floor(position * (1 / _BASE))
                digit, position = position - above * _BASE, above
            digit = tf.cast(digit, tf.float32)
            rates = frequencies * _BASE**place / (2 * math.pi)
            rates -= np.round(rates)
            exact = np.round(rates / _STEP) * _STEP
            product = times(digit, exact)
            turns += product - tf.floor(product) + times(digit, rates - exact)
        return 2 * math.pi * (turns - tf.floor(turns + 0.5))

    return reduced
