"""Floors and ceilings that FP16 lacks, as in `log(maximum(x, 1e-10))` or `x / (y + 1e-12)`.

A floor becomes zero, a ceiling infinity. Where the values beside a floor are larger by far, a
larger floor gives the same results. Behind a logarithm or a root a floor is a number that FP16
holds: log(maximum(x, c)) is the larger of log(x) and log(c).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from tfmp.converters.intake import Edits, Filling, Graph, Node
from tfmp.converters.tflite.rewriting.masks import held, known_values
from tfmp.converters.tflite.rewriting.ranges import Magnitudes
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

_ADDING = frozenset(("Add", "AddV2", "BiasAdd"))
_BOUNDING = frozenset("Maximum Select SelectV2 Less LessEqual Greater GreaterEqual".split())
# A sum with a floor that is smaller by so many powers of two is the same to FP16's last digit.
_BESIDE = 12
# The inverse root of the smallest number.
_CEILING = 2.0**12


@dataclass(frozen=True)
class Floor:
    """A constant that FP16 makes zero or infinite, and that bounds other values.

    Attributes:
        node: the constant.
        value: its value.
        readers: the nodes that bound values by it.
        held: a number in its place that FP16 holds, as far below or above the values seen.
        moved: whether it bounds the logarithm or root of the values instead.
    """

    node: Node
    value: float
    readers: tuple[Node, ...]
    held: float
    moved: bool = False

    @property
    def what(self) -> str:
        """The change in words."""
        if self.moved:
            return "floor moved behind the logarithm or root"
        return "floor raised" if self.value < 1 else "ceiling lowered"


def floors(graph: Graph, seen: Magnitudes) -> list[Floor]:
    """The floors and ceilings of a graph that FP16 lacks."""
    found = []
    for node in graph.nodes:
        values = known_values(node, graph)
        if values is None or values.min() < 0:
            continue
        name, largest = node.outputs[0], float(values.max())
        low = 0 < largest <= FLOAT16.smallest_subnormal / 2
        if not low and values.min() < FLOAT16.overflow_threshold:
            continue
        bounds = _has_floor if low else _has_inverse
        readers = tuple(reader for reader in graph.readers(name) if bounds(reader, graph))
        if readers:
            held = (min if low else max)(_most(reader, name, seen) for reader in readers)
            floor = Floor(node, largest, readers, held)
            moved = low and any(_moved(reader, floor, graph) for reader in readers)
            found.append(replace(floor, moved=moved))
    return found


def _has_floor(reader: Node, graph: Graph) -> bool:
    return reader.op in _ADDING | _BOUNDING and not graph.constants.issuperset(reader.outputs)


def _has_inverse(reader: Node, graph: Graph) -> bool:
    """Whether a node bounds an inverse root; files keep other ceilings at the end of FP16."""
    return reader.op == "Minimum" and any(graph.makers[x].op == "Rsqrt" for x in reader.inputs)


def _most(reader: Node, limit: str, seen: Magnitudes) -> float:
    """The power of two farthest from the ends of FP16 that bounds none of the values seen."""
    beside = [seen[name] for name in reader.inputs if name != limit and name in seen]
    if reader.op == "Minimum":
        peak = max((one.peak for one in beside), default=0.0)
        largest = max(peak, 1 / math.sqrt(FLOAT16.smallest_normal))
        return min(2.0 ** math.ceil(math.log2(largest)), _CEILING)
    smallest = min((one.smallest for one in beside), default=np.inf)
    if reader.op in _ADDING:
        smallest *= 2.0**-_BESIDE
    smallest = min(smallest, FLOAT16.smallest_normal)
    return max(2.0 ** math.floor(math.log2(smallest)), FLOAT16.smallest_subnormal)


def hold_floors(graph: Graph, edits: Edits, seen: Magnitudes, names: Collection[str]) -> None:
    """Puts numbers that FP16 holds in the place of limits of these names; a `Rewrite`.

    Args:
        graph: the graph as it is.
        edits: takes the changes.
        seen: magnitudes by tensor.
        names: names of the constants.
    """
    for floor in floors(graph, seen):
        if floor.node.name not in names:
            continue
        beside = []
        for reader in floor.readers:
            moved = _moved(reader, floor, graph)
            if moved is None:
                beside.append(reader)
            else:
                edits.replace(*moved, graph)
        if beside:
            edits.read(floor.node.outputs[0], beside, held(floor.held))


def _moved(reader: Node, floor: Floor, graph: Graph) -> tuple[Node, Filling] | None:
    """A function that bounds its operand, or the other way round, where only one of them can be.

    Some kernels of FP16 make NaN of the inverse root of zero, so its operand is bounded.
    """
    import tensorflow as tf

    others = [name for name in reader.inputs if name != floor.node.outputs[0]]
    if len(others) != 1 or reader.op not in _ADDING | {"Maximum", "Minimum"}:
        return None
    if reader.op == "Minimum":
        root = graph.makers[others[0]]
        return replace(reader, inputs=root.inputs), lambda x: tf.math.rsqrt(
            tf.maximum(x, floor.held**-2)
        )
    functions = {"Log": (tf.math.log, math.log), "Sqrt": (tf.sqrt, math.sqrt)}
    result = reader.outputs[0]
    readers = graph.readers(result)
    if result in graph.outputs or len(readers) != 1 or readers[0].op not in functions:
        return None
    function, limit = functions[readers[0].op][0], functions[readers[0].op][1](floor.value)

    def bounded(x: Tensor) -> Tensor:
        # Nothing is below a floor; what is added to a negative number stays no number.
        given = tf.nn.relu(x) if reader.op == "Maximum" else x
        return tf.maximum(function(given), limit)

    return replace(readers[0], inputs=(others[0],)), bounded
