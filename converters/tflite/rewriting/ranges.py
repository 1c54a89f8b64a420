"""Magnitudes of every tensor of a TensorFlow graph on real samples, and of the sums in it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tfmp.converters.intake import Graph, Node, Source
from tfmp.converters.shared.tensors import Batch, in_pieces
from tfmp.converters.shared.traced_runs import run_traced
from tfmp.shared.numerics import FLOAT16

# All activations of so many samples are held at once, where the model takes any number.
_ROWS = 4

# Elements of a constant that is kept.
_SMALL = 4096

# A tensor of which this share becomes zero has lost more than noise.
VANISHING = 0.01

_VANISHES = FLOAT16.smallest_subnormal / 2
_FINEST = 2.0**-12

SUMS = ("Mean", "Sum")


@dataclass
class Magnitude:
    """The values that were seen of one tensor.

    Attributes:
        low: smallest finite value.
        high: largest finite value.
        smallest: smallest magnitude other than zero.
        size: number of values in one run.
        nonfinite: number of values that are infinite or not a number in float32 already.
        nonzero: number of finite values other than zero.
        vanished: number of these that FP16 makes zero.
        hidden: largest value that any order of adding can reach, if the tensor is the input of a
            sum or mean.
        step: largest power of two up to 1 of which all values are multiples; 0 where it is below
            2**-12.
        value: the value itself, of a small tensor that depends on no input.
    """

    low: float = np.inf
    high: float = -np.inf
    smallest: float = np.inf
    size: int = 0
    nonfinite: int = 0
    nonzero: int = 0
    vanished: int = 0
    hidden: float = 0.0
    step: float = 1.0
    value: np.ndarray | None = None

    def see(self, values: np.ndarray) -> None:
        """Widens the range by the values of one run."""
        finite = values[np.isfinite(values)]
        nonzero = np.abs(finite[finite != 0])
        self.size = max(self.size, values.size)
        self.nonfinite += values.size - finite.size
        self.nonzero += nonzero.size
        if finite.size:
            self.low, self.high = min(self.low, finite.min()), max(self.high, finite.max())
        if nonzero.size:
            self.smallest = min(self.smallest, float(nonzero.min()))
        if self.smallest <= _VANISHES:
            self.vanished += int(np.count_nonzero(nonzero <= _VANISHES))
        if self.step and (finite % _FINEST).any():
            self.step = 0.0
        while self.step and (finite % self.step).any():
            self.step /= 2

    @property
    def peak(self) -> float:
        """Largest finite magnitude; 0 where none was seen."""
        return float(max(-self.low, self.high, 0.0))

    @property
    def vanishing(self) -> float:
        """Share of the values other than zero that FP16 makes zero."""
        return self.vanished / self.nonzero if self.nonzero else 0.0

    @property
    def width(self) -> float:
        """Half of the range; 0 where all values are alike."""
        return max(float(self.high - self.low) / 2, 0.0)

    @property
    def offset(self) -> float:
        """Distance of the middle of the range from zero, in half-widths of the range."""
        return float(abs(self.high + self.low)) / 2 / self.width if self.width else 0.0


Magnitudes = dict[str, Magnitude]


def measure(source: Source, batches: Iterable[Batch]) -> Magnitudes:
    """Magnitudes of every float32 tensor of the main graph, by name."""
    graph = Graph(source.graph, len(source.inputs))
    sums = [node for node in graph.nodes if node.op in SUMS and node.inputs[0] in graph.floats]
    floats = [name for node in graph.nodes for name in node.outputs if name in graph.floats]
    axes = [node.inputs[1] for node in sums]
    run = fetching(source, [*floats, *axes])
    seen = {name: Magnitude() for name in floats}
    rows = next((spec.shape[0] for spec in source.inputs if spec.shape and spec.shape[0]), _ROWS)
    for batch in batches:
        alike = len({len(array) for array in batch.values() if array.ndim}) == 1
        for piece, _ in in_pieces(batch, rows if alike else None):
            values = run(piece)
            for name in floats:
                seen[name].see(values[name])
                if name in graph.constants and seen[name].size <= _SMALL:
                    seen[name].value = values[name]
            for node in sums:
                given = seen[node.inputs[0]]
                worst = _worst_sum(values[node.inputs[0]], values[node.inputs[1]])
                given.hidden = max(given.hidden, worst)
    return seen


def worst_of(node: Node, seen: Magnitudes) -> float:
    """The largest magnitude that a node writes, or adds up on the way to it."""
    peaks = [seen[name].peak for name in node.outputs if name in seen]
    hidden = seen[node.inputs[0]].hidden if node.op in SUMS and node.inputs[0] in seen else 0.0
    return max([*peaks, hidden], default=0.0)


def fetching(source: Source, names: list[str]) -> Callable[[Batch], dict[str, np.ndarray]]:
    """A function that runs the source and gives these tensors."""
    import tensorflow as tf

    traced = source.graph
    tensors = [traced.graph.get_tensor_by_name(name) for name in names]
    inputs = list(traced.inputs[: len(source.inputs)])
    # A tensor that is fed cannot be fetched as well: inputs are added by hand.
    own = [tensor for tensor in tensors if all(tensor is not one for one in inputs)]
    function = traced.prune(inputs, own)

    def run(batch: Batch) -> dict[str, np.ndarray]:
        fed = [tf.constant(batch[spec.name], dtype=spec.dtype) for spec in source.inputs]
        values = {
            tensor.name: np.asarray(value)
            for tensor, value in zip(own, run_traced(function, *fed), strict=True)
        }
        for tensor, value in zip(inputs, fed, strict=True):
            values[tensor.name] = np.asarray(value)
        return values

    return run


def constants(source: Source, names: Iterable[str]) -> dict[str, np.ndarray]:
    """The values of tensors that depend on no input."""
    traced = source.graph
    tensors = [traced.graph.get_tensor_by_name(name) for name in names]
    values = run_traced(traced.prune([], tensors)) if tensors else ()
    return {one.name: np.asarray(value) for one, value in zip(tensors, values, strict=True)}


def _worst_sum(values: np.ndarray, axes: np.ndarray) -> float:
    """The largest sum over axes that any order can reach."""
    sizes = np.abs(np.where(np.isfinite(values), values, 0))
    summed = tuple(int(axis) for axis in np.reshape(axes, -1))
    return float(sizes.sum(axis=summed, dtype=np.float64).max(initial=0.0))
