"""The values of a model that FP16 arithmetic could not hold, found before it is converted.

A TFLite file computes in FP16 on GPUs, and on ARM CPUs if it allows that. The audit looks at the
constants and the running values of the float32 graph that would be converted, and gives the number
of powers of two between each of them and the limits of FP16. Random inputs prove nothing about real
ones: without data the audit only names the things that it cannot know.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tfmp.converters.intake import AnySource, Source
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import Batch, are_open, open_sizes_note
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export import (
    ConstantFinding,
    constant_findings,
    export_tflite,
    weight_bytes,
)
from tfmp.converters.tflite.file import (
    FLATBUFFER_LIMIT_BYTES,
    TFLiteModel,
    layer_of,
    sums_over_open_sizes,
)
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.numerics import FLOAT16
from tfmp.shared.progress import SILENT, Progress

if TYPE_CHECKING:
    from tfmp.converters.tflite.audit.meter import Range

_BATCH_TIMEOUT_S = 1800.0

# Less room than this, in powers of two, and other data than what was measured may overflow.
TIGHT_BINADES = 2.0
# A tensor of which this share becomes zero has lost more than noise.
_VANISHING_SHARE = 0.01


@dataclass(frozen=True)
class ActivationFinding:
    """One computed tensor, and its distance from the limits of FP16.

    Attributes:
        name: the tensor's name.
        layer: the Keras layer that it comes from; "" when unknown.
        op: the TFLite operator that gives it.
        peak: largest magnitude seen.
        smallest: smallest magnitude other than zero.
        accumulator: largest value of a sum inside the operator; 0 for an operator without one.
        accumulator_of: name of that sum, such as "sum of squares".
        operand: smallest magnitude of the operand that the operator divides by, or None.
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

    def to_dict(self) -> dict[str, Any]:
        """A JSON document with the names of the attributes; non-finite numbers are texts."""
        document = {"schema": "tfmp.audit/1", **asdict(self)}
        for found, row in zip(self.activations, document["activations"], strict=True):
            row |= {"headroom": found.headroom, "footroom": found.footroom}
        return _spelled_out(document)


# From the worst to harmless.
_STATUSES = ("non-finite", "overflows", "divides by zero", "vanishes", "tight", "fits")
_DANGEROUS = _STATUSES[:4]


def audit_model(
    source: AnySource,
    batches: Iterable[Batch] | None = None,
    progress: Progress = SILENT,
    converter: Worker | None = None,
) -> Audit:
    """Looks for values of a model that FP16 arithmetic could not hold.

    Args:
        source: the model.
        batches: real samples, arrays by input name; None to look at constants only.
        progress: told of the stages.
        converter: the process that converts; see `export_tflite`.

    Raises:
        InputError: the model is an ONNX file.
        ConversionError: the model cannot become a TFLite file, or the file fails on the samples.
    """
    if not isinstance(source, Source):
        raise InputError(
            f"model {source.name!r} is an ONNX graph; the audit follows the TFLite operators that "
            "a Keras or TensorFlow model becomes. Inspect the model that it was exported from."
        )
    _check_size(source)
    with temporary_folder() as folder:
        path = folder / "float32.tflite"
        export_tflite(source, path, precision="fp32", progress=progress, converter=converter)
        model = TFLiteModel(path)
        constants = constant_findings(model)
        activations: tuple[ActivationFinding, ...] = ()
        samples = 0
        if batches is not None:
            try:
                activations, samples = _measure(model, batches, progress)
            except RunnerError as error:
                raise ConversionError(
                    f"model {source.name!r}: its ranges cannot be measured ({error}) Leave "
                    "--data out to look at its constants only."
                ) from error
        unknown = _unknown(model, samples)
        if are_open(source.inputs):
            note = open_sizes_note(source.inputs, sums_over_open_sizes(model))
            unknown = (*unknown, *filter(None, [note]))
        return Audit(source.name, constants, activations, samples, unknown)


def _check_size(source: Source) -> None:
    """Refuses a model whose weights fit a file in FP16, perhaps, but not in float32."""
    needed = weight_bytes([source], "fp32")
    if needed > FLATBUFFER_LIMIT_BYTES:
        raise ConversionError(
            f"model {source.name!r} has {needed / 2**30:.1f} GiB of float32 weights; the audit "
            "measures them in a TFLite file, which holds less than 2 GiB. A conversion with --data "
            "measures the model itself, and its report names the layers that overflow."
        )


def _measure(
    model: TFLiteModel, batches: Iterable[Batch], progress: Progress
) -> tuple[tuple[ActivationFinding, ...], int]:
    samples = 0
    with Worker(
        "tfmp.converters.tflite.audit.meter:RangeMeter",
        model.path,
        label="measuring ranges with LiteRT",
        timeout_s=_BATCH_TIMEOUT_S,
    ) as worker:
        for batch in batches:
            worker.call("see", batch)
            samples += len(next(iter(batch.values())))
            progress(f"measuring ranges: {samples} samples")
        ranges = worker.call("ranges")
    givers = {
        (operator.subgraph, index): operator.name
        for operator in model.operators
        for index in operator.outputs
    }
    found = [_finding(model, graph, index, givers, seen) for graph, index, seen in ranges]
    return tuple(sorted(found, key=_danger)), samples


def _finding(
    model: TFLiteModel,
    graph: int,
    index: int,
    givers: dict[tuple[int, int], str],
    seen: "Range",
) -> ActivationFinding:
    name = model.tensors[graph][index].spec.name
    vanishing = seen.vanished / seen.nonzero if seen.nonzero else 0.0
    operand = seen.operand if math.isfinite(seen.operand) else None
    return ActivationFinding(
        name=name,
        layer=layer_of(name),
        op=givers[graph, index],
        peak=seen.peak,
        smallest=seen.smallest if seen.nonzero else 0.0,
        accumulator=seen.hidden,
        accumulator_of=seen.hidden_what,
        operand=operand,
        vanishing=vanishing,
        nonfinite=seen.nonfinite,
        status=_status(seen, operand, vanishing),
    )


def _status(seen: "Range", operand: float | None, vanishing: float) -> str:
    largest = max(seen.peak, seen.hidden)
    if seen.nonfinite:
        return "non-finite"
    if largest >= FLOAT16.overflow_threshold:
        return "overflows"
    if operand is not None and 0 < operand <= FLOAT16.smallest_subnormal / 2:
        return "divides by zero"
    if vanishing > _VANISHING_SHARE:
        return "vanishes"
    if _binades(FLOAT16.max, largest) < TIGHT_BINADES:
        return "tight"
    if operand is not None and 0 < operand < FLOAT16.smallest_normal:
        return "tight"
    return "fits"


def _danger(found: ActivationFinding) -> tuple[int, float]:
    return _STATUSES.index(found.status), min(found.headroom, found.footroom)


def _unknown(model: TFLiteModel, samples: int) -> tuple[str, ...]:
    if not samples:
        return (
            "no samples were run: which activations overflow or vanish is unknown. Give real "
            "samples with --data FILE; random ones would prove nothing.",
        )
    known = [
        f"values beyond the values of these {samples} samples",
        "the order in which a GPU adds: sums were followed in the order of memory",
    ]
    if any(operator.name == "IF" for operator in model.operators):
        known.append("values inside the branches of IF operators")
    return tuple(known)


def _binades(limit: float, value: float) -> float:
    """Powers of two from `value` up to `limit`; infinite when the value is 0."""
    return math.log2(limit / value) if value > 0 else math.inf


def _spelled_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
