"""A `Source` to a TFLite file with FP16 weights: names and order kept, every byte explained."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfmp.converters.errors import ConversionError, InputError, RunnerError
from tfmp.converters.files import check_folder, replacing
from tfmp.converters.source import Source
from tfmp.converters.tensors import TensorSpec
from tfmp.converters.tflite.contract import MEANING, accumulation, allow_accumulation
from tfmp.converters.tflite.reader import TFLiteModel
from tfmp.converters.tflite.signature import SIGNATURE, restore_names, safe_names
from tfmp.converters.tflite.sizes import SizeAccount, account
from tfmp.converters.worker import Worker

PRECISIONS = ("fp16", "fp32")

# A FlatBuffer's offsets are signed 32-bit numbers (flatbuffers.dev, "Internals").
_FLATBUFFER_LIMIT_BYTES = 2**31 - 1

_CONVERSION_TIMEOUT_S = 3600.0
_LOAD_TIMEOUT_S = 300.0
# The converter needs no GPU, and TensorFlow would take all of its memory.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class TFLiteFile:
    """A .tflite file that was written and loads.

    Attributes:
        path: where it is.
        precision: "fp16" or "fp32", of its weights.
        batch_size: the first size of its inputs; None when it may change.
        inputs: in the source's order.
        outputs: likewise.
        sizes: what became FP16, what did not, and why.
        flex_ops: TensorFlow ops that plain LiteRT cannot run.
        notes: what a user of the file should know, for the report.
    """

    path: Path
    precision: str
    batch_size: int | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sizes: SizeAccount
    flex_ops: tuple[str, ...]
    notes: tuple[str, ...]


def export_tflite(
    source: Source,
    output: Path,
    precision: str = "fp16",
    batch_size: int | None = 1,
    accumulate: str = "fp32",
    allow_flex: bool = False,
    progress: Progress | None = None,
) -> TFLiteFile:
    """Converts `source` and writes `output`, whole or not at all.

    The batch size is fixed, at 1, unless asked otherwise: phones run one sample at a time, GPU
    and NPU delegates take static shapes only, and recurrent layers with a dynamic batch need
    TensorFlow's own ops, which plain LiteRT lacks. The LiteRT runners feed larger batches sample
    by sample.

    Args:
        source: the model; its inputs and outputs keep their names and order.
        output: the file to write; one that exists is replaced.
        precision: "fp16" rounds every float constant to float16; "fp32" leaves them.
        batch_size: first size of every input; None keeps it dynamic.
        accumulate: the sums that the file allows FP16 hardware to make, "fp32" or "fp16".
        allow_flex: keep ops that TFLite lacks as TensorFlow ops.
        progress: called with a short text when a stage begins.

    Raises:
        InputError: an option that is out of range, or a folder that cannot be written.
        ConversionError: the model cannot become such a file; the text names the ops and layers.
    """
    _check_options(precision, batch_size, accumulate)
    check_folder(output.parent)
    _check_size(source, precision)
    say = progress or (lambda _: None)
    with (
        # TensorFlow starts in there while the model is traced here.
        Worker(
            "tfmp.converters.tflite.converter:Converter",
            label="TensorFlow's TFLite converter",
            timeout_s=_CONVERSION_TIMEOUT_S,
            environment=_ENVIRONMENT,
        ) as worker,
        tempfile.TemporaryDirectory(prefix="tfmp-") as folder,
        replacing(output) as draft,
    ):
        say("tracing the model for TFLite")
        _save_model(source, batch_size, folder)
        say("converting to TFLite")
        try:
            worker.call("convert", Path(folder), draft, precision, allow_flex)
        except RunnerError as error:  # the process died, hung or met what nobody foresaw
            raise ConversionError(f"model {source.name!r}: {error}") from error
        except ConversionError as error:
            raise ConversionError(f"model {source.name!r}: {error}") from None
        restore_names(
            draft, [spec.name for spec in source.inputs], [spec.name for spec in source.outputs]
        )
        allow_accumulation(draft, accumulate)
        result = _describe(TFLiteModel(draft), output, source, precision)
        if not result.flex_ops:
            say("checking that LiteRT loads the file")
            _check_loads(draft, source)
        return result


def _check_options(precision: str, batch_size: int | None, accumulate: str) -> None:
    for name, value in (("precision", precision), ("accumulate", accumulate)):
        if value not in PRECISIONS:
            raise InputError(
                f"{name}: expected one of {', '.join(PRECISIONS)}, received {value!r}."
            )
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise InputError(
            f"batch_size: expected a whole number of at least 1, or None for a dynamic batch, "
            f"received {batch_size!r}."
        )


def _check_size(source: Source, precision: str) -> None:
    """Refuses weights that cannot fit a FlatBuffer before minutes pass on them."""
    width = {"fp16": 2, "fp32": 4}[precision]
    needed = width * sum(math.prod(variable.shape) for variable in source.variables)
    if needed > _FLATBUFFER_LIMIT_BYTES:
        raise ConversionError(
            f"model {source.name!r} has {needed / 2**30:.1f} GiB of {precision} weights; a TFLite "
            f"file holds less than 2 GiB. Convert it to ONNX, or split the model."
        )


def _save_model(source: Source, batch_size: int | None, folder: str) -> None:
    """Writes the forward pass as a SavedModel whose signature has safe names."""
    import tensorflow as tf

    graph = source.graph if batch_size is None else source.trace(batch_size)
    names = safe_names("in", len(source.inputs))
    signature = {
        name: tf.TensorSpec((batch_size, *spec.shape[1:]), spec.dtype, name=name)
        for name, spec in zip(names, source.inputs, strict=True)
    }

    def serve(**named: Any) -> dict[str, Any]:
        results = graph(*(named[name] for name in names))
        results = _told_apart(results, [_origin(output) for output in graph.outputs])
        return dict(zip(safe_names("out", len(results)), results, strict=True))

    module = tf.Module()
    # The variables themselves: behind Keras's own objects the converter does not see that nothing
    # writes to them, and exports empty ones.
    module.weights = list(graph.graph.variables)
    function = tf.function(serve, autograph=False).get_concrete_function(**signature)
    try:
        tf.saved_model.save(module, folder, signatures={SIGNATURE: function})
    except OSError as error:
        raise ConversionError(
            f"model {source.name!r}: no room for its weights in {folder} ({error.strerror}). Free "
            "space there, or name another folder in the variable TMPDIR."
        ) from error


def _origin(output: Any) -> Any:
    """The operation result that an output is, behind identities."""
    while output.op.type == "Identity":
        output = output.op.inputs[0]
    return output


def _told_apart(values: Sequence[Any], origins: Sequence[Any]) -> list[Any]:
    """The values, copied where one tensor would be two outputs, or an input and an output.

    LiteRT's CompiledModel reads garbage from such an input, and finds only one such output.
    """
    import tensorflow as tf

    latest: dict[str, Any] = {}
    results = []
    for value, origin in zip(values, origins, strict=True):
        if origin.op.type == "Placeholder" or origin.name in latest:
            # Each copy is made of the one before: the converter merges copies of the same.
            value = latest.get(origin.name, value)
            copy = tf.logical_or if value.dtype.is_bool else tf.maximum
            value = copy(value, value)  # an operator that the converter keeps
        latest[origin.name] = value
        results.append(value)
    return results


def _check_loads(draft: Path, source: Source) -> None:
    try:
        with Worker(
            "tfmp.converters.tflite.interpreter:Interpreter",
            draft,
            label="LiteRT",
            timeout_s=_LOAD_TIMEOUT_S,
        ) as worker:
            worker.call("describe")
    except RunnerError as error:
        raise ConversionError(
            f"model {source.name!r}: the converted file does not load in LiteRT {error}"
        ) from error


def _describe(model: TFLiteModel, output: Path, source: Source, precision: str) -> TFLiteFile:
    flex_ops = tuple(sorted({operator.name for operator in model.operators if operator.flex}))
    sizes = account(model)
    notes = [str(sizes)]
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
        inputs=model.inputs,
        outputs=model.outputs,
        sizes=sizes,
        flex_ops=flex_ops,
        notes=tuple(notes),
    )
