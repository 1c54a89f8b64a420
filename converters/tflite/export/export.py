"""Exports a `Source` to a TFLite file with FP16 weights that keeps the names and their order."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfmp.converters.intake import Source
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.files import check_folder
from tfmp.converters.shared.tensors import TEXT, TensorSpec
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export.constants import (
    ConstantFinding,
    confirmed,
    source_findings,
)
from tfmp.converters.tflite.export.saved_model import write_saved_model
from tfmp.converters.tflite.file import (
    MEANING,
    SIGNATURE,
    Signature,
    SizeAccount,
    TFLiteModel,
    account,
    accumulation,
    allow_accumulation,
    restore_names,
)
from tfmp.converters.tflite.rewriting import without_gaps
from tfmp.shared.arguments import is_whole_number
from tfmp.shared.atomic_file import replacing, temporary_folder
from tfmp.shared.progress import SILENT, Progress

PRECISIONS = ("fp16", "fp32")

# A FlatBuffer's offsets are signed 32-bit numbers (flatbuffers.dev, "Internals").
FLATBUFFER_LIMIT_BYTES = 2**31 - 1

_CONVERSION_TIMEOUT_S = 3600.0
_LOAD_TIMEOUT_S = 300.0
# The converter needs no GPU, and TensorFlow would take all of its memory.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}


@dataclass(frozen=True)
class TFLiteFile:
    """A .tflite file that was written and loads.

    Attributes:
        path: path of the file.
        precision: "fp16" or "fp32", the precision of its weights.
        batch_size: the first size of its inputs; None when it may change.
        signatures: inputs and outputs by signature, in the order of their sources.
        sizes: bytes of constants that became FP16 and of those that did not, with reasons.
        flex_ops: TensorFlow ops that plain LiteRT cannot run.
        notes: facts that a user of the file should know, for the report.
    """

    path: Path
    precision: str
    batch_size: int | None
    signatures: dict[str, Signature]
    sizes: SizeAccount
    flex_ops: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the first signature."""
        return next(iter(self.signatures.values())).inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the first signature."""
        return next(iter(self.signatures.values())).outputs


def export_tflite(
    source: Source | Mapping[str, Source],
    output: Path,
    precision: str = "fp16",
    batch_size: int | None = 1,
    accumulate: str = "fp32",
    allow_flex: bool = False,
    progress: Progress = SILENT,
    converter: Worker | None = None,
) -> TFLiteFile:
    """Converts `source` and writes `output`, whole or not at all.

    The batch size is fixed at 1 by default: phones run one sample at a time, GPU
    and NPU delegates take static shapes only, and recurrent layers with a dynamic batch need
    TensorFlow's own ops, which plain LiteRT lacks. The LiteRT runners feed larger batches sample
    by sample. A model that fixes its batch itself keeps it.

    Args:
        source: the model; its inputs and outputs keep their names and order. Several sources by
            signature name become one file; weights that they share are stored once.
        output: the file to write; one that exists is replaced.
        precision: "fp16" rounds every float constant to float16; "fp32" leaves them.
        batch_size: samples of the inputs that leave the number open; None keeps it open.
        accumulate: precision of the sums that the file allows FP16 hardware to make, "fp32" or
            "fp16".
        allow_flex: keep ops that TFLite lacks as TensorFlow ops.
        progress: told of the stages.
        converter: a result of `start_converter`, for several conversions in a row: TensorFlow then
            starts once. None to start and end one here.

    Raises:
        InputError: an option is out of range, or the folder cannot be written.
        ConversionError: the model cannot become such a file; the text names the ops and layers.
    """
    signatures = {SIGNATURE: source} if isinstance(source, Source) else dict(source)
    _check_options(signatures, precision, batch_size, accumulate)
    check_folder(output.parent)
    batch_size = _batch_size(signatures, batch_size)
    _check_size(signatures, precision)
    with (
        _naming(signatures),
        # TensorFlow starts in there while the model is traced here.
        nullcontext(converter) if converter else start_converter() as worker,
        temporary_folder() as folder,
        replacing(output) as draft,
    ):
        progress("tracing the model for TFLite")
        filled = {key: without_gaps(one) for key, one in signatures.items()}
        write_saved_model({key: one for key, (one, _) in filled.items()}, batch_size, folder)
        progress("converting to TFLite")
        sources = signatures.values() if precision == "fp16" else ()
        findings = [finding for source in sources for finding in source_findings(source)]
        with _dtypes_named([*signatures.values()]):
            worker.call("convert", folder, draft, list(signatures), precision, allow_flex)
        restore_names(draft, {key: (one.inputs, one.outputs) for key, one in signatures.items()})
        allow_accumulation(draft, accumulate)
        result = _describe(TFLiteModel(draft), output, list(signatures), precision, findings)
        changed = dict.fromkeys(note for _, notes in filled.values() for note in notes)
        result = replace(result, notes=(*result.notes, *changed))
        if not result.flex_ops:
            progress("checking that LiteRT runs the file")
            _check_runs(draft, result.inputs)
        return result


def start_converter() -> Worker:
    """A process with TensorFlow's converter, for `export_tflite`; a context manager."""
    return Worker(
        "tfmp.converters.tflite.export.converter:Converter",
        label="TensorFlow's TFLite converter",
        timeout_s=_CONVERSION_TIMEOUT_S,
        environment=_ENVIRONMENT,
    )


@contextmanager
def _naming(signatures: Mapping[str, Source]) -> Iterator[None]:
    """Puts the model's name before errors of its conversion."""
    names = " and ".join(dict.fromkeys(repr(source.name) for source in signatures.values()))
    try:
        yield
    except (ConversionError, RunnerError) as error:
        raise ConversionError(f"model {names}: {error}") from error


_PRODUCTS = ("BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative", "Einsum", "MatMul")


@contextmanager
def _dtypes_named(sources: Sequence[Source]) -> Iterator[None]:
    """Adds float64 weights or arithmetic in 16 bits, if any, to a complaint about operators."""
    try:
        yield
    except (ConversionError, RunnerError) as error:
        half = {dtype for source in sources for dtype in _half_arithmetic(source)}
        if half:
            raise ConversionError(
                f"{error} The graph itself computes in {' and '.join(sorted(half))}, which few "
                "TFLite operators take: convert the .keras or .h5 file of this model, or save it "
                "under the policy float32."
            ) from error
        variables = (variable for source in sources for variable in source.graph.graph.variables)
        wide = next((v.name for v in variables if v.dtype.name == "float64"), None)
        if wide is None:
            raise
        wide = wide.partition(":")[0]
        raise ConversionError(
            f"{error} Its weights are float64 (such as {wide!r}), which few TFLite operators take: "
            "make the model under the policy float32, and give it these weights."
        ) from error


def _half_arithmetic(source: Source) -> Iterator[str]:
    """The 16-bit types that products are computed in."""
    for operation in source.graph.graph.get_operations():
        dtype = operation.outputs[0].dtype.name if operation.outputs else ""
        if operation.type in _PRODUCTS and dtype in ("float16", "bfloat16"):
            yield dtype


def _check_options(
    signatures: Mapping[str, Source], precision: str, batch_size: int | None, accumulate: str
) -> None:
    if not signatures:
        raise InputError(
            "source: expected at least one model to convert, received an empty mapping."
        )
    for name, value in (("precision", precision), ("accumulate", accumulate)):
        if value not in PRECISIONS:
            raise InputError(
                f"{name}: expected one of {', '.join(PRECISIONS)}, received {value!r}."
            )
    if batch_size is not None and not (is_whole_number(batch_size) and batch_size >= 1):
        raise InputError(
            f"batch_size: expected a whole number of at least 1, or None for a dynamic batch, "
            f"received {batch_size!r}."
        )


def _batch_size(signatures: Mapping[str, Source], asked: int | None) -> int | None:
    """The batch size of the file: the one that the models fix, else the one that was asked for."""
    fixed = {
        size
        for source in signatures.values()
        for spec in source.inputs
        # States and scalars may have sizes of their own.
        if spec.shape and spec.name not in source.layout.states
        if (size := spec.shape[source.layout.axis(spec.name)]) is not None
    }
    if not fixed:
        return asked
    if len(fixed) > 1 or (asked not in (1, *fixed)):
        sizes = ", ".join(map(str, sorted(fixed)))
        raise InputError(
            f"batch_size: the model's inputs fix the batch at {sizes}, received {asked}. Leave the "
            "batch size out, or build the model with a free batch axis."
        )
    return fixed.pop()


def _check_size(signatures: Mapping[str, Source], precision: str) -> None:
    """Refuses weights that cannot fit a FlatBuffer before minutes pass on them."""
    needed = weight_bytes(signatures.values(), precision)
    if needed > FLATBUFFER_LIMIT_BYTES:
        names = ", ".join(repr(source.name) for source in signatures.values())
        raise ConversionError(
            f"model {names} has {needed / 2**30:.1f} GiB of {precision} weights; a TFLite file "
            "holds less than 2 GiB. Convert it to ONNX, or split the model."
        )


def weight_bytes(sources: Iterable[Source], precision: str) -> int:
    """Bytes of these models' weights in a file; weights that they share count once."""
    width = {"fp16": 2, "fp32": 4}[precision]
    variables = {id(v): v for source in sources for v in source.variables}
    return width * sum(math.prod(variable.shape) for variable in variables.values())


_UNLOADABLE = "the converted file does not load in LiteRT"


def _check_runs(draft: Path, inputs: Sequence[TensorSpec]) -> None:
    """Loads the file, and runs it once where all of its sizes are known."""
    with Worker(
        "tfmp.converters.tflite.file:Interpreter",
        draft,
        label=_UNLOADABLE,
        timeout_s=_LOAD_TIMEOUT_S,
    ) as worker:
        worker.call("describe")
        zeros = {}
        for spec in inputs:
            sizes = [size for size in spec.shape if size is not None]
            if spec.dtype == TEXT or len(sizes) < len(spec.shape):
                return
            zeros[spec.name] = np.zeros(sizes, spec.dtype)
        try:
            worker.call("run", zeros)
        except RunnerError as error:
            reason = str(error).removeprefix(f"{_UNLOADABLE}: ").strip().splitlines()[-1][:300]
            raise ConversionError(
                f"LiteRT loads the converted file and cannot run it ({reason}). Convert to ONNX, "
                "or replace the layers that work on other sizes than the batch."
            ) from error


def _describe(
    model: TFLiteModel,
    output: Path,
    keys: Sequence[str],
    precision: str,
    findings: Sequence[ConstantFinding],
) -> TFLiteFile:
    flex_ops = tuple(sorted({operator.name for operator in model.operators if operator.flex}))
    sizes = account(model)
    destroyed = confirmed(findings, model) if precision == "fp16" else ()
    notes = [str(sizes), *map(str, destroyed)]
    if sizes.kept and precision == "fp16":
        largest = sizes.kept[0]
        notes.append(
            f"{len(sizes.kept)} constants stayed FP32, the largest {largest.name!r} "
            f"({largest.nbytes} bytes): {largest.reason}"
        )
    if promise := accumulation(model):
        notes.append(MEANING[promise])
    if flex_ops:
        notes.append(
            f"needs the TensorFlow (Flex) delegate for {', '.join(flex_ops)}: plain LiteRT and "
            "GPUs cannot run it"
        )
    return TFLiteFile(
        path=output,
        precision=precision,
        batch_size=model.batch_size,
        signatures={key: model.signatures[key] for key in keys},
        sizes=sizes,
        flex_ops=flex_ops,
        notes=tuple(notes),
    )
