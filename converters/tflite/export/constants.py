"""Constants that FP16 cannot hold: what clamps, vanishes or loses digits, and in which layer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tfmp.converters.intake import Source
from tfmp.converters.shared.frameworks import GraphDef
from tfmp.converters.tflite.file import TFLiteModel, layer_of
from tfmp.shared.numerics import FLOAT16

# Rounds a large weight in pieces, so that looking at it takes no second copy of it.
_PIECE = 1 << 20


@dataclass(frozen=True)
class ConstantFinding:
    """A constant of which FP16 changes more than the last digits.

    Attributes:
        name: of its tensor.
        layer: the Keras layer it comes from; "" when unknown.
        size: how many values it has.
        clamped: values beyond the largest FP16 number; the converter makes them +-65504.
        vanished: values other than zero that become zero.
        subnormal: values that lose digits because they are below the smallest normal number.
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
    """What FP16 would do to the weights and float constants of a model, before any conversion."""
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
    """What FP16 did destroy in a converted file, told with what the source knows of it.

    The converter folds constants in float32: a tiny variance that only scales a kernel is gone
    from the file and harms nothing, and a harmless scale may have become too large by it.

    Args:
        findings: of the sources, see `source_findings`.
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
            for piece in _pieces(values)
        )
        if at_limit:
            folded = ConstantFinding(
                tensor.spec.name, layer, values.size, at_limit, 0, 0, FLOAT16.max, FLOAT16.max
            )
            found.append(next((f for f in same if f.clamped), folded))
        elif not any(map(np.any, _pieces(values))):
            found += [f for f in same if f.vanished and f.serious][:1]
    return _worst_first(found)


def constant_findings(model: TFLiteModel) -> tuple[ConstantFinding, ...]:
    """What FP16 does to the float32 constants of a file, the worst first."""
    tensors = (tensor for tensor in model.constants() if tensor.spec.dtype == "float32")
    found = (
        examine(tensor.spec.name, layer_of(tensor.spec.name), model.constant(tensor))
        for tensor in tensors
    )
    return _worst_first(filter(None, found))


def examine(name: str, layer: str, values: np.ndarray) -> ConstantFinding | None:
    """What FP16 does to these values, or None where it only rounds them."""
    clamped = vanished = subnormal = 0
    largest, smallest = 0.0, np.inf
    for piece in _pieces(values):
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


def _pieces(values: np.ndarray) -> Iterator[np.ndarray]:
    flat = values.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        yield flat[start : start + _PIECE]


def _worst_first(findings: Iterable[ConstantFinding]) -> tuple[ConstantFinding, ...]:
    return tuple(
        sorted(
            findings,
            key=lambda f: (not f.serious, -f.clamped, -f.vanished / f.size, -f.subnormal / f.size),
        )
    )
