"""Exports a `Source` to a TFLite file with FP16 weights that keeps the names and their order."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tfmp.converters.intake import Source, probe
from tfmp.converters.shared.errors import ConversionError, RunnerError
from tfmp.converters.shared.files import check_folder
from tfmp.converters.shared.tensors import TEXT, Batch, relative_l2
from tfmp.converters.shared.worker import Worker, kept_worker
from tfmp.converters.tflite.export.batches import batch_size as batch_size_of, fixed_axes
from tfmp.converters.tflite.export.constants import (
    ConstantFinding,
    constant_findings,
)
from tfmp.converters.tflite.export.outputs import tell_apart
from tfmp.converters.tflite.export.saved_model import write_saved_model
from tfmp.converters.tflite.export.storage import account, store_in_fp16
from tfmp.converters.tflite.file import (
    FLATBUFFER_LIMIT_BYTES,
    SIGNATURE,
    HostScaling,
    TFLiteModel,
    add_scaling,
    pack,
    restore_names,
    unpacked,
)
from tfmp.converters.tflite.rewriting import without_gaps
from tfmp.shared.atomic_file import replacing, temporary_folder
from tfmp.shared.progress import SILENT, Progress

_CONVERSION_TIMEOUT_S = 3600.0
_LOAD_TIMEOUT_S = 300.0
# Answers of a file that differ by more from the model's, and those of a model that draws numbers.
_FAR, _SAME = 0.1, 1e-3
# The converter needs no GPU, and TensorFlow would take all of its memory.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}

# The effect of what a file allows, for reports.
_ALLOWED = {
    "fp16": "allows FP16 sums: GPUs compute in FP16, and so do ARM CPUs with FP16 arithmetic",
    "fp32": "allows FP32 sums only: CPUs compute in FP32, GPUs still compute in FP16",
}


@dataclass(frozen=True)
class TFLiteFile:
    """A .tflite file that was written and loads.

    Attributes:
        path: path of the file.
        notes: facts that a user of the file should know, for the report.
    """

    path: Path
    notes: tuple[str, ...]


def export_tflite(
    source: Source | Mapping[str, Source],
    output: Path,
    precision: str = "fp16",
    batch_size: int | None = 1,
    accumulate: str = "fp32",
    allow_flex: bool = False,
    progress: Progress = SILENT,
    converter: Worker | None = None,
    scaling: Mapping[str, HostScaling] = MappingProxyType({}),
) -> TFLiteFile:
    """Converts `source` and writes `output`, whole or not at all.

    The batch size is fixed at 1 by default: phones run one sample at a time, GPU
    and NPU delegates take static shapes only, and recurrent layers with a dynamic batch need
    TensorFlow's own ops, which plain LiteRT lacks. The LiteRT runners feed larger batches sample
    by sample. A model that fixes its batch itself keeps it; a first axis that is none stays open.

    Args:
        source: the model; its inputs and outputs keep their names and order. Several sources by
            signature name become one file; weights that they share are stored once.
        output: the file to write; one that exists is replaced.
        precision: "fp16" rounds large float constants to float16; "fp32" leaves them.
        batch_size: samples of the inputs that leave the number open; None keeps it open.
        accumulate: precision of the sums that the file allows FP16 hardware to make, "fp32" or
            "fp16".
        allow_flex: keep ops that TFLite lacks as TensorFlow ops.
        progress: told of the stages.
        converter: a result of `start_converter`, for several conversions in a row: TensorFlow then
            starts once. None to start and end one here.
        scaling: what the host does to outputs of the only source, by name, for the metadata.

    Raises:
        InputError: the folder cannot be written.
        ConversionError: the model cannot become such a file; the text names the ops and layers.
    """
    signatures = {SIGNATURE: source} if isinstance(source, Source) else dict(source)
    check_folder(output.parent)
    sizes = {key: batch_size_of(one, batch_size) for key, one in signatures.items()}
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
        write_saved_model({key: one for key, (one, _) in filled.items()}, sizes, folder, allow_flex)
        progress("converting to TFLite")
        whole = folder / "float32.tflite"
        # The process was started in another working directory, perhaps.
        paths = folder.absolute(), whole.absolute()
        past = weight_bytes(signatures.values(), "fp32") > FLATBUFFER_LIMIT_BYTES
        worker.call("convert", *paths, list(signatures), allow_flex, past)
        model = unpacked(whole)
        findings: Sequence[ConstantFinding] = ()
        tell_apart(model)
        restore_names(model, {key: (one.inputs, one.outputs) for key, one in signatures.items()})
        if precision == "fp16":
            findings = constant_findings(TFLiteModel(whole), "float32")
            store_in_fp16(model, accumulate)
        if scaling:
            (one,) = signatures.values()
            names = [[spec.name for spec in specs] for specs in (one.inputs, one.outputs)]
            add_scaling(model, names[0], names[1], scaling)
        pack(model, draft)
        file = TFLiteModel(draft)
        notes = _facts(file, findings)
        pairs = ((one, file.signatures[key].inputs) for key, one in signatures.items())
        fixed = dict.fromkeys(fixed_axes(*pair) for pair in pairs)
        notes += [f"fixed: {one} (--dynamic keeps it open)" for one in fixed if one]
        notes += dict.fromkeys(note for _, own in filled.values() for note in own)
        if not file.flex_ops:
            progress("checking that LiteRT runs the file")
            notes = [*_check_runs(file, *next(iter(signatures.items()))), *notes]
        return TFLiteFile(output, tuple(notes))


def start_converter() -> AbstractContextManager[Worker]:
    """A process with TensorFlow's converter, for `export_tflite`; it is kept for the next call."""
    return kept_worker(
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


def _check_runs(file: TFLiteModel, key: str, source: Source) -> Iterable[str]:
    """Loads the file, and runs it where all of its sizes are known; notes on wrong answers."""
    signature = file.signatures[key]
    label, limit = _UNLOADABLE, _LOAD_TIMEOUT_S
    name = "tfmp.converters.tflite.file:Interpreter"
    with Worker(name, file.path, "cpu", key, label=label, timeout_s=limit) as worker:
        worker.call("describe")
        if any(spec.dtype == TEXT or None in spec.shape for spec in signature.inputs):
            return ()
        # Some models divide by ones of their inputs, and some do not know ids past zero.
        sizes = {s.name: ([n or 0 for n in s.shape], s.dtype) for s in signature.inputs}
        tried = [probe(source, samples=signature.batch_size or 1, seed=0)]
        tried += [{n: fill(*one) for n, one in sizes.items()} for fill in (np.ones, np.zeros)]
        failures = list[RunnerError]()
        for batch in tried:
            try:
                received, _ = worker.call("run", batch)
            except RunnerError as error:
                failures.append(error)
            else:
                return _far_off(source, batch, received)
        reason = str(failures[0]).removeprefix(f"{_UNLOADABLE}: ").strip().splitlines()[-1]
        raise ConversionError(_cannot_run(reason[:300])) from failures[0]


# LiteRT's words for an output whose size becomes known only while the model runs.
_OPEN_OUTPUT = re.compile("Failed to register output tensor buffer|Invalid tensor size")
_NO_BUFFER = re.compile(r"Unsupported dtype: (\w+)")


def _cannot_run(reason: str) -> str:
    """The sentence for a file that loads and does not run."""
    if _OPEN_OUTPUT.search(reason):
        return (
            "the size of an output depends on the values of the inputs, and LiteRT hands out "
            "outputs of fixed size only. Let the model give a fixed number of rows (tf.math.top_k, "
            "or a mask in place of tf.where, tf.unique or tf.boolean_mask), or convert to ONNX."
        )
    if dtype := _NO_BUFFER.search(reason):
        plain = "float32" if "float" in dtype[1] else "int32"
        return (
            f"LiteRT takes no inputs and gives no outputs of {dtype[1]}. Let the model take and "
            f"give {plain}, and cast inside it, or convert to ONNX."
        )
    return (
        f"LiteRT loads the converted file and cannot run it ({reason}). Convert to ONNX, or "
        "replace the layers that work on other sizes than the batch."
    )


def _far_off(source: Source, batch: Batch, received: Batch) -> Iterator[str]:
    """A note on each output that is not the source's, which FP16 seldom explains."""
    try:
        answers = source.forward(batch)
    except Exception:  # TensorFlow lacks some kernels on some devices, and some runs take long
        return
    for name, expected in answers.items():
        found = received[name]
        if expected.dtype.kind != "f" or expected.shape != found.shape:
            continue
        if not np.isfinite(expected).all():  # random numbers are no samples for this model
            continue
        error = relative_l2(expected, found)
        if not error <= _FAR and relative_l2(expected, source.forward(batch)[name]) <= _SAME:
            yield (
                f"output {name!r} is far from the model's own on a random sample (relative L2 "
                f"{error:.2g}): compare the file on real ones (--data) before it is used"
            )


def _facts(file: TFLiteModel, findings: Sequence[ConstantFinding]) -> list[str]:
    notes = [account(file), *(str(finding) for finding in findings if finding.serious)]
    if file.accumulation:
        notes.append(_ALLOWED[file.accumulation])
    if file.flex_ops:
        notes.append(
            f"needs the TensorFlow (Flex) delegate for {', '.join(file.flex_ops)}: plain LiteRT "
            "and GPUs cannot run it"
        )
    return notes
