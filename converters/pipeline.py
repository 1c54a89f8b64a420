"""`convert`: source -> export -> FP16 -> checked file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tfmp.converters.artifact import (
    PRECISIONS,
    SUFFIXES,
    Artifact,
    Progress,
    check_choice,
    silent,
)
from tfmp.converters.drift.verdict import DriftBudget
from tfmp.converters.errors import InputError
from tfmp.converters.files import check_output
from tfmp.converters.intake import check_model_file
from tfmp.converters.source import AnySource, OnnxSource, Source, file_sha256
from tfmp.converters.validation import open_model, prepare_data, validate

__all__ = ["Artifact", "check_conversion", "convert", "validate"]


@dataclass(frozen=True)
class OnnxOptions:
    """Choices for ONNX files.

    Attributes:
        keep_fp32: regular expressions over node names, Keras layers and op types that stay FP32.
        opset: version of the ONNX operator set; None for the default, or an ONNX model's own.
        external_data: write weights to a second file beside the model. Models past 2 GiB always do.
    """

    keep_fp32: Sequence[str] = ()
    opset: int | None = None
    external_data: bool = False


@dataclass(frozen=True)
class TFLiteOptions:
    """Choices for TFLite files.

    Attributes:
        dynamic_batch: let the file take any number of samples at a time; else one, or as many as
            the model fixes.
        accumulate: the sums that the file allows FP16 hardware, "fp32" or "fp16".
        allow_flex: keep ops that TFLite lacks as TensorFlow ops, which plain LiteRT cannot run.
    """

    dynamic_batch: bool = False
    accumulate: str = "fp32"
    allow_flex: bool = False


Options = OnnxOptions | TFLiteOptions


def convert(
    model: Any,
    to: str = "onnx",
    output: str | Path | None = None,
    precision: str = "fp16",
    data: Any = None,
    budget: DriftBudget | None = None,
    *,
    labels: Any = None,
    force: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Artifact:
    """Converts a model to a static ONNX or TFLite file.

    Args:
        model: whatever `open_source` takes, or what it returned.
        to: "onnx" or "tflite".
        output: file to write; by default the model's name with the format's suffix, beside the
            model's file (for a live model, in the working directory).
        precision: "fp16" or "fp32".
        data: samples to validate the result on; see `validate`.
        budget: allowed drift of that validation.
        labels: see `validate`.
        force: replace an existing output.
        progress: called with a short text when a stage begins.
        **options: the fields of `OnnxOptions` or `TFLiteOptions`.

    Returns:
        The file that was written; its `report` where data was given.

    Raises:
        InputError: the model, an option or the output path cannot be used.
        ConversionError: the model has a part that the format cannot express.
    """
    check_choice("to", to, tuple(SUFFIXES))
    check_choice("precision", precision, PRECISIONS)
    choices = _choices(to, options)
    if isinstance(choices, OnnxOptions) and choices.keep_fp32 and precision == "fp32":
        raise InputError(
            "keep_fp32 names what stays FP32 in an FP16 file, received precision='fp32'. Leave "
            "one of them out."
        )
    path = check_conversion(model, to, output, force)
    source = open_model(model, progress)
    budget = budget or DriftBudget()
    if data is not None:
        data = prepare_data(source, data, labels, budget)
    if isinstance(choices, OnnxOptions):
        notes = _write_onnx(source, path, precision, choices, progress)
    else:
        notes = _write_tflite(source, path, precision, choices, progress)
    report = None
    if data is not None:
        report = validate(source, path, data, budget=budget, progress=progress)
    return Artifact(
        path=path,
        format=to,
        precision=precision,
        size_bytes=path.stat().st_size,
        sha256=file_sha256(path),
        notes=(*source.origin.notes, *notes),
        report=report,
    )


def _choices(to: str, options: dict[str, Any]) -> Options:
    kind = OnnxOptions if to == "onnx" else TFLiteOptions
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise InputError(
                f"{name} is no option of a conversion to {to}, received {name}={options[name]!r}; "
                f"its options: {', '.join(known)}."
            )
    if "opset" in options and options["opset"] is not None:
        from tfmp.converters.onnx.export import check_opset

        check_opset(options["opset"])
    return kind(**options)


def check_conversion(model: Any, to: str, output: str | Path | None, force: bool) -> Path:
    """Where `convert` will write; raises `InputError` if it could not, before any work is done."""
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    path = Path(output) if output is not None else _default_output(model, to)
    original = model.origin.path if isinstance(model, Source | OnnxSource) else model
    if isinstance(original, str | Path) and path.exists() and path.samefile(original):
        raise InputError(f"{path}: is the model itself. Name another output with -o FILE.")
    check_output(path, SUFFIXES[to], force)
    return path


def _default_output(model: Any, to: str) -> Path:
    path = model.origin.path if isinstance(model, Source | OnnxSource) else model
    if not isinstance(path, str | Path):
        return Path(getattr(model, "name", "model")).with_suffix(SUFFIXES[to])
    path = Path(path)
    same = path.suffix == SUFFIXES[to]
    return path.with_suffix(".fp16.onnx" if same else SUFFIXES[to])


def _write_onnx(
    source: AnySource, path: Path, precision: str, options: OnnxOptions, progress: Progress
) -> list[str]:
    from tfmp.converters.onnx.export import check_export, export_onnx, to_opset
    from tfmp.converters.onnx.fp16 import to_fp16
    from tfmp.converters.onnx.storage import save_checked

    if isinstance(source, OnnxSource):
        model = to_opset(source.model.clone(), options.opset)
    else:
        model = export_onnx(source, options.opset, progress)
        progress("checking the float32 export")
        check_export(model, source)
    notes = []
    if precision == "fp16":
        progress("rewriting to FP16")
        model, report = to_fp16(model, tuple(options.keep_fp32))
        notes = report.notes()
    progress("checking and writing the result")
    save_checked(model, path, options.external_data)
    return notes


def _write_tflite(
    source: AnySource, path: Path, precision: str, options: TFLiteOptions, progress: Progress
) -> list[str]:
    from tfmp.converters.tflite.export import export_tflite

    if isinstance(source, OnnxSource):
        raise InputError(
            f"{source.origin.path}: an ONNX file cannot become TFLite. Convert the Keras or "
            "TensorFlow model that it was exported from."
        )
    file = export_tflite(
        source,
        path,
        precision,
        None if options.dynamic_batch else 1,
        options.accumulate,
        options.allow_flex,
        progress,
    )
    return list(file.notes)
