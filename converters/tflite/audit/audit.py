"""The values of a model that FP16 arithmetic could not hold, found before it is converted.

A TFLite file computes in FP16 on GPUs, and on ARM CPUs if it allows that. The audit looks at the
constants and the running values of the float32 graph that would be converted, and gives the number
of powers of two between each of them and the limits of FP16. Random inputs prove nothing about real
ones: without data the audit only names the things that it cannot know.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tfmp.converters.intake import AnySource, Graph, Node, Source
from tfmp.converters.shared.errors import InputError, running_on_samples
from tfmp.converters.shared.tensors import Batch, are_open
from tfmp.converters.tflite.export import ConstantFinding, findings_in
from tfmp.converters.tflite.file import layer_of
from tfmp.converters.tflite.rewriting import (
    SUMS,
    VANISHING,
    Magnitude,
    Magnitudes,
    constants,
    measure,
    without_gaps,
)
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.progress import SILENT, Progress
from tfmp.shared.report_files import JsonObject, plain_fields

# Less room than this, in powers of two, and other data than what was measured may overflow.
TIGHT_BINADES = 2.0
# Operations that make a large or infinite result of a small operand, and the place of that operand.
_DELICATE_OPERAND = {"RealDiv": 1, "DivNoNan": 1, "Rsqrt": 0, "Reciprocal": 0, "Log": 0}


@dataclass(frozen=True)
class ActivationFinding:
    """One computed tensor, and its distance from the limits of FP16.

    Attributes:
        name: the tensor's name.
        layer: the Keras layer that it comes from; "" when unknown.
        op: TensorFlow's operation that gives it.
        peak: largest magnitude seen.
        smallest: smallest magnitude other than zero.
        accumulator: largest sum inside the operation in any order; 0 for one without a sum.
        accumulator_of: "sum", or "" for an operation without one.
        operand: smallest magnitude other than zero of what the operation divides by, or None.
        vanishing: share of its values other than zero that FP16 makes zero.
        nonfinite: number of values that are not finite in float32 already.
        status: "non-finite", "overflows", "divides by zero", "vanishes", "tight" or "fits".
    """

    name: str
    layer: str
    op: str
    peak: float
    smallest: float
    accumulator: float
    accumulator_of: str
    operand: float | None
    vanishing: float
    nonfinite: int
    status: str

    DERIVED: ClassVar = ("headroom", "footroom")

    @property
    def headroom(self) -> float:
        """Powers of two between the largest value or sum and 65504; negative past it."""
        return _binades(FLOAT16.max, max(self.peak, self.accumulator))

    @property
    def footroom(self) -> float:
        """Powers of two from the smallest FP16 number up to a divisor; infinite without one."""
        if self.operand is None:
            return math.inf
        return -_binades(FLOAT16.smallest_subnormal, self.operand)


@dataclass(frozen=True)
class Audit:
    """The values of one model that FP16 could not hold.

    Attributes:
        model: the model's name.
        constants: constants of which FP16 changes more than the last digits, the worst first.
        activations: every float tensor that the data reached, the most endangered first.
        samples: number of samples that were run.
        unknown: things that this audit cannot know, in words.
    """

    model: str
    constants: tuple[ConstantFinding, ...]
    activations: tuple[ActivationFinding, ...]
    samples: int
    unknown: tuple[str, ...]

    @property
    def dangers(self) -> tuple[ConstantFinding | ActivationFinding, ...]:
        """The findings that FP16 will make wrong, as far as values were looked at."""
        constants = [finding for finding in self.constants if finding.serious]
        return (*constants, *(found for found in self.activations if found.status in _DANGEROUS))

    @property
    def exit_status(self) -> int:
        """Exit status of a command: 1 with dangers, 0 without any on samples, 3 without samples."""
        if self.dangers:
            return 1
        return 0 if self.samples else 3

    def to_dict(self) -> JsonObject:
        """A JSON document with the names of the attributes; non-finite numbers are texts."""
        return {"schema": "tfmp.audit/1", **plain_fields(self)}


# From the worst to harmless.
_STATUSES = ("non-finite", "overflows", "divides by zero", "vanishes", "tight", "fits")
_DANGEROUS = _STATUSES[:4]


def audit_model(
    source: AnySource,
    batches: Iterable[Batch] | None = None,
    progress: Progress = SILENT,
    calls: Callable[[Batch], Iterable[Batch]] = lambda batch: (batch,),
) -> Audit:
    """Looks for values of a model that FP16 arithmetic could not hold.

    Args:
        source: the model.
        batches: real samples, arrays by input name; None to look at constants only.
        progress: told of the stages.
        calls: gives the arrays of the model's own calls on a batch.

    Raises:
        InputError: the model is an ONNX file, or cannot run on the samples.
    """
    if not isinstance(source, Source):
        raise InputError(
            f"model {source.name!r} is an ONNX graph; the audit follows the operations of a Keras "
            "or TensorFlow model",
            "Inspect the model that it was exported from, or convert it with --data and --explain",
        )
    model = without_gaps(source)[0]
    graph = Graph(model.graph, len(model.inputs))
    harmed = findings_in(_constants(model, graph))
    counts: list[int] = []
    seen: Magnitudes = {}
    if batches is not None:
        with running_on_samples(source.name):
            passed = _counted(batches, counts, progress)
            seen = measure(model, (call for batch in passed for call in calls(batch)))
    found = [
        _finding(node, name, seen)
        for node in graph.nodes
        for name in node.outputs
        if name in seen and name not in graph.constants and name not in graph.inputs
    ]
    unknown = _unknown(source, graph, sum(counts))
    return Audit(source.name, harmed, tuple(sorted(found, key=_danger)), sum(counts), unknown)


def _counted(batches: Iterable[Batch], counts: list[int], progress: Progress) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        counts.append(max((len(array) for array in batch.values() if np.ndim(array)), default=1))
        progress(f"measuring ranges: {sum(counts)} samples")


def _constants(source: Source, graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """The float32 constants that operations on the input read, folded as a converter folds them.

    A variable is one constant, however many operations read it, whole or row by row.
    """
    read: dict[str, str] = {}
    for node in graph.nodes:
        for name in () if graph.constants.issuperset(node.outputs) else node.inputs:
            if name in graph.constants:
                maker = graph.makers[name]
                held = maker.inputs[0] if maker.op == "ReadVariableOp" else name
                read.setdefault(held, name)
    yield from constants(source, [name for name in read.values() if name in graph.floats]).items()
    traced = source.graph
    handles = {id(variable.handle): variable for variable in traced.graph.variables}
    for outer, inner in traced.graph.captures:
        variable = handles.get(id(outer))
        whole = read.get(inner.name) != inner.name
        if not whole and variable is not None and variable.dtype.name == "float32":
            yield variable.name, variable.numpy()


def _finding(node: Node, name: str, seen: Magnitudes) -> ActivationFinding:
    one = seen[name]
    delicate = _DELICATE_OPERAND.get(node.op)
    divisor = seen.get(node.inputs[delicate]) if delicate is not None else None
    operand = divisor.smallest if divisor is not None and divisor.nonzero else None
    hidden = seen[node.inputs[0]].hidden if node.op in SUMS and node.inputs[0] in seen else 0.0
    return ActivationFinding(
        name=name,
        layer=layer_of(name),
        op=node.op,
        peak=one.peak,
        smallest=one.smallest if one.nonzero else 0.0,
        accumulator=hidden,
        accumulator_of="sum" if hidden else "",
        operand=operand,
        vanishing=one.vanishing,
        nonfinite=one.nonfinite,
        status=_status(one, hidden, operand),
    )


def _status(seen: Magnitude, hidden: float, operand: float | None) -> str:
    largest = max(seen.peak, hidden)
    if seen.nonfinite:
        return "non-finite"
    if largest >= FLOAT16.overflow_threshold:
        return "overflows"
    if operand is not None and operand <= FLOAT16.smallest_subnormal / 2:
        return "divides by zero"
    if seen.vanishing > VANISHING:
        return "vanishes"
    if _binades(FLOAT16.max, largest) < TIGHT_BINADES:
        return "tight"
    if operand is not None and operand < FLOAT16.smallest_normal:
        return "tight"
    return "fits"


def _danger(found: ActivationFinding) -> tuple[int, float]:
    return _STATUSES.index(found.status), min(found.headroom, found.footroom)


def _unknown(source: Source, graph: Graph, samples: int) -> tuple[str, ...]:
    if not samples:
        return (
            "no samples were run: which activations overflow or vanish is unknown. Give real "
            "samples with --data FILE; random ones would prove nothing.",
        )
    known = [f"values beyond the values of these {samples} samples"]
    if are_open(source.inputs):
        known.append("larger sizes than these samples have: sums grow with them")
    if any(node.op in _WITH_BODIES for node in graph.nodes):
        known.append("values inside loops and branches, such as states between their steps")
    return tuple(known)


_WITH_BODIES = frozenset("Case If StatelessCase StatelessIf StatelessWhile While".split())


def _binades(limit: float, value: float) -> float:
    """Powers of two from `value` up to `limit`; infinite when the value is 0."""
    return math.log2(limit / value) if value > 0 else math.inf
