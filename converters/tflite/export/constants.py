"""Constants that FP16 cannot hold: values that clamp, vanish or lose digits, and their layers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tfmp.converters.intake import Source
from tfmp.converters.shared.frameworks import GraphDef
from tfmp.converters.shared.tensors import flat_pieces
from tfmp.converters.tflite.file import TFLiteModel, layer_of
from tfmp.shared.numerics import FLOAT16


@dataclass(frozen=True)
class ConstantFinding:
    """A constant of which FP16 changes more than the last digits.

    Attributes:
        name: its tensor's name.
        layer: the Keras layer that it comes from; "" when unknown.
        size: number of its values.
        clamped: number of values beyond the largest FP16 number; the converter makes them +-65504.
        vanished: number of values other than zero that become zero.
        subnormal: number of values that lose digits below the smallest normal number.
        largest: largest magnitude.
        smallest: smallest magnitude other than zero.
    """

    name: str
    layer: str
    size: int
    clamped: int
    vanished: int
    subnormal: int
    largest: float
    smallest: float

    @property
    def serious(self) -> bool:
        """Whether a result can hardly survive it: a clamp, or a constant that is gone."""
        return self.clamped > 0 or (
            self.vanished > 0 and self.vanished + self.subnormal == self.size
        )

    def __str__(self) -> str:
        where = f"constant {self.name!r}" + (f" (layer {self.layer})" if self.layer else "")
        parts = []
        if self.clamped:
            beyond = f", the largest is {self.largest:.3g}" if self.largest > FLOAT16.max else ""
            parts.append(f"{self.clamped} of {self.size} values clamp to {FLOAT16.max:g}{beyond}")
        if self.vanished:
            parts.append(f"{self.vanished} of {self.size} values become 0")
        if self.subnormal:
            parts.append(f"{self.subnormal} of {self.size} values are subnormal and lose digits")
        return f"{where}: {'; '.join(parts)}"


def source_findings(source: Source) -> tuple[ConstantFinding, ...]:
    """The weights and float constants of a model that FP16 would harm, before any conversion."""
    values = chain(_weights(source), _graph_constants(source.graph.graph.as_graph_def()))
    return _worst_first(filter(None, (examine(*value) for value in values)))


def _weights(source: Source) -> Iterator[tuple[str, str, np.ndarray]]:
    for variable in source.graph.graph.variables:
        if variable.dtype.name == "float32":
            name = variable.name.partition(":")[0]
            yield name, name.rpartition("/")[0], variable.numpy()


def _graph_constants(graph: GraphDef) -> Iterator[tuple[str, str, np.ndarray]]:
    from tensorflow import make_ndarray

    nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
    for node in nodes:
        if node.op == "Const" and node.attr["value"].tensor.dtype == 1:  # types.proto: DT_FLOAT
            yield node.name, layer_of(node.name), make_ndarray(node.attr["value"].tensor)


def confirmed(
    findings: Sequence[ConstantFinding], model: TFLiteModel
) -> tuple[ConstantFinding, ...]:
    """The constants that FP16 has destroyed in a converted file, as the sources describe them.

    The converter folds constants in float32: a tiny variance that only scales a kernel is gone
    from the file and harms nothing, and folding may have made a harmless scale too large.

    Args:
        findings: findings of the sources, see `source_findings`.
        model: the float16 file.
    """
    found = []
    for tensor in model.constants():
        if tensor.spec.dtype != "float16":
            continue
        values, layer = model.constant(tensor), layer_of(tensor.spec.name)
        same = [f for f in findings if (f.layer, f.size) == (layer, values.size)]
        at_limit = sum(
            int(np.count_nonzero(np.abs(piece) == np.float16(FLOAT16.max)))
            for piece in flat_pieces(values)
        )
        if at_limit:
            folded = ConstantFinding(
                tensor.spec.name, layer, values.size, at_limit, 0, 0, FLOAT16.max, FLOAT16.max
            )
            found.append(next((f for f in same if f.clamped), folded))
        elif not any(map(np.any, flat_pieces(values))):
            found += [f for f in same if f.vanished and f.serious][:1]
    return _worst_first(found)


def constant_findings(model: TFLiteModel) -> tuple[ConstantFinding, ...]:
    """The float32 constants of a file that FP16 harms, the worst first."""
    tensors = (tensor for tensor in model.constants() if tensor.spec.dtype == "float32")
    found = (
        examine(tensor.spec.name, layer_of(tensor.spec.name), model.constant(tensor))
        for tensor in tensors
    )
    return _worst_first(filter(None, found))


def examine(name: str, layer: str, values: np.ndarray) -> ConstantFinding | None:
    """The harm that FP16 does to these values; None if it only rounds them."""
    clamped = vanished = subnormal = 0
    largest, smallest = 0.0, np.inf
    for piece in flat_pieces(values):
        sizes = np.abs(piece)
        nonzero = sizes[sizes > 0]
        if not nonzero.size:
            continue
        largest, smallest = max(largest, float(nonzero.max())), min(smallest, float(nonzero.min()))
        # From here on 65504 is no longer the nearest number FP16 has.
        clamped += int(np.count_nonzero(sizes >= FLOAT16.overflow_threshold))
        gone = int(np.count_nonzero(nonzero <= FLOAT16.smallest_subnormal / 2))
        vanished += gone
        subnormal += int(np.count_nonzero(nonzero < FLOAT16.smallest_normal)) - gone
    if not (clamped or vanished or subnormal):
        return None
    return ConstantFinding(
        name, layer, values.size, clamped, vanished, subnormal, largest, smallest
    )


def _worst_first(findings: Iterable[ConstantFinding]) -> tuple[ConstantFinding, ...]:
    return tuple(
        sorted(
            findings,
            key=lambda f: (not f.serious, -f.clamped, -f.vanished / f.size, -f.subnormal / f.size),
        )
    )
