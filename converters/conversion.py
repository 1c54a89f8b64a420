"""`convert`: source -> export -> FP16 -> checked file."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfmp.converters.choices import (
    OnnxOptions,
    Options,
    TFLiteOptions,
    check_precision,
    choices_of,
)
from tfmp.converters.drift import DriftBudget
from tfmp.converters.intake import AnySource, OnnxSource, Source, check_model_file, file_sha256
from tfmp.converters.report import (
    NOTHING_FOUND,
    PRECISIONS,
    SUFFIXES,
    Artifact,
    Findings,
    Progress,
    check_choice,
    silent,
)
from tfmp.converters.samples import Dataset
from tfmp.converters.shared.errors import InputError, running_on_samples
from tfmp.converters.shared.files import check_output
from tfmp.converters.validation import (
    Count,
    open_model,
    prepare_comparison,
    prepare_data,
    uncounted,
    validate,
)

if TYPE_CHECKING:
    from tfmp.converters.onnx import Repair
    from tfmp.converters.shared.worker import Worker
    from tfmp.converters.tflite.rewriting import Overflow

__all__ = ["Artifact", "check_conversion", "convert", "validate"]

# Layers that a report names; `tfmp-convert inspect` lists all.
_MOST_OVERFLOWS = 5

_NO_SAMPLES = (
    "converted without samples: which activations overflow or vanish in FP16 is unknown. Give real "
    "ones as data (--data); random ones would prove nothing."
)
_READ_ONCE = (
    "which layers overflow in FP16 was not looked for: the samples can be read only once, and are "
    "compared. Give arrays, or a function that makes a new iterator."
)


def convert(
    model: Any,
    to: str = "onnx",
    output: str | Path | None = None,
    precision: str = "fp16",
    data: Any = None,
    budget: DriftBudget | None = None,
    *,
    labels: Any = None,
    device: str = "auto",
    emulate: str | None = None,
    split: bool = False,
    explain: bool | str | Path = False,
    latency: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = silent,
    count: Count = uncounted,
    **options: Any,
) -> Artifact:
    """Converts a model to a static ONNX or TFLite file.

    Args:
        model: whatever `open_source` takes, or what it returned.
        to: "onnx" or "tflite".
        output: file to write; by default the model's name with the format's suffix, beside the
            model's file (for a live model, in the working directory).
        precision: "fp16", "fp32", or for ONNX "mixed": FP16 with as few nodes in FP32 as keep the
            budget on `data`.
        data: samples to validate the result on; see `validate`.
        budget: allowed drift of that validation.
        labels, device, emulate, split, explain, latency, ray, workers, count: of that validation,
            see `validate`.
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
    choices = choices_of(to, options)
    check_precision(precision, choices, data)
    path = check_conversion(model, to, output, force)
    asked: dict[str, Any] = {
        "device": device,
        "emulate": emulate,
        "split": split,
        "explain": explain,
        "latency": latency,
        "ray": ray,
        "workers": workers,
    }
    if data is None:
        _check_nothing_asked(labels=labels, budget=budget, **asked)
    budget = budget or DriftBudget()
    with prepare_comparison([SUFFIXES[to]], **asked):
        with tflite_converter([to]) as converter:
            source = open_model(model, progress, several=to == "tflite")
            if data is not None:
                data = prepare_data(source, data, labels, budget)
            artifact = write_artifact(
                source, path, precision, choices, data, budget, progress, converter
            )
        if data is None:
            return artifact
        report = validate(
            source, artifact, data, budget=budget, progress=progress, count=count, **asked
        )
    return replace(artifact, report=report)


def _check_nothing_asked(**options: Any) -> None:
    """Raises `InputError` for options of a validation that will not be."""
    for name, value in options.items():
        unasked = value is None or value is False or (name == "device" and value == "auto")
        if not unasked:
            raise InputError(
                f"{name} is about samples to compare on, received {name}={value!r} without data. "
                "Pass data, or leave it out."
            )


@contextmanager
def tflite_converter(targets: Iterable[str]) -> Iterator["Worker | None"]:
    """A process in which TensorFlow starts while the model is loaded here; None for ONNX alone."""
    if "tflite" not in targets:
        yield None
        return
    from tfmp.converters.tflite.export import start_converter

    with start_converter() as converter:
        yield converter


def write_artifact(
    source: AnySource,
    path: Path,
    precision: str,
    choices: Options,
    data: Dataset | None,
    budget: DriftBudget,
    progress: Progress,
    converter: "Worker | None" = None,
) -> Artifact:
    """Converts an open model, without validating the result.

    Args:
        source: the model.
        path: what `check_conversion` allowed.
        precision: see `convert`.
        choices: of the format to convert to.
        data: samples for precision "mixed" and for repair, which search on them.
        budget: what the search for "mixed" keeps to.
        progress: called with a short text when a stage begins.
        converter: what `tflite_converter` gave; None to start one here.

    Raises:
        InputError: the samples are missing or can be read only once.
        ConversionError: the model has a part that the format cannot express.
    """
    check_precision(precision, choices, data)
    searches = precision == "mixed" or (isinstance(choices, TFLiteOptions) and choices.repair)
    if searches and data is not None and data.once:
        name = "precision='mixed'" if precision == "mixed" else "repair"
        raise InputError(
            f"{name} reads the data more than once, to search and to validate, received data that "
            "can be read only once. Pass arrays or a function that makes a new iterator."
        )
    if isinstance(choices, OnnxOptions):
        search = (data, budget) if precision == "mixed" and data is not None else None
        findings = Findings(_write_onnx(source, path, precision, choices, search, progress))
    else:
        findings = _write_tflite(source, path, precision, choices, data, progress, converter)
    return Artifact(
        path=path,
        format="onnx" if isinstance(choices, OnnxOptions) else "tflite",
        precision=precision,
        size_bytes=path.stat().st_size,
        sha256=file_sha256(path),
        findings=replace(findings, notes=(*source.origin.notes, *findings.notes)),
    )


def check_conversion(model: Any, to: str, output: str | Path | None, force: bool) -> Path:
    """Where `convert` will write; raises `InputError` if it could not, before any work is done."""
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    path = Path(output) if output is not None else _default_output(model, to)
    original = model.origin.path if isinstance(model, Source | OnnxSource) else model
    if isinstance(original, str | Path) and _same_file(path, Path(original)):
        raise InputError(f"{path}: is the model itself. Name another output with -o FILE.")
    check_output(path, SUFFIXES[to], force)
    return path


def _same_file(path: Path, original: Path) -> bool:
    """Whether both are one file; an open model may outlive its own."""
    return path.exists() and original.exists() and path.samefile(original)


def _default_output(model: Any, to: str) -> Path:
    path = model.origin.path if isinstance(model, Source | OnnxSource) else model
    if not isinstance(path, str | Path):
        return Path(getattr(model, "name", "model")).with_suffix(SUFFIXES[to])
    path = Path(path)
    same = path.suffix == SUFFIXES[to]
    return path.with_suffix(".fp16.onnx" if same else SUFFIXES[to])


def _write_onnx(
    source: AnySource,
    path: Path,
    precision: str,
    options: OnnxOptions,
    search: tuple[Dataset, DriftBudget] | None,
    progress: Progress,
) -> tuple[str, ...]:
    from tfmp.converters.onnx.export import check_export, export_onnx, to_opset
    from tfmp.converters.onnx.fp16 import describe_origin, to_fp16
    from tfmp.converters.onnx.graph import save_checked

    if isinstance(source, OnnxSource):
        model = to_opset(source.model.clone(), options.opset)
    else:
        model = export_onnx(source, options.opset, progress)
        progress("checking the float32 export")
        check_export(model, source)
    notes: list[str] = []
    report = None
    if precision != "fp32":
        found, rewritten = None, None
        if search:
            with running_on_samples(source.name):
                found, rewritten = _islands(model, options, *search, progress)
        progress("rewriting to FP16")
        islands = found.islands if found else None
        model, report = to_fp16(
            model, options.keep_fp32, options.fp16_io, islands, rewritten, options.target
        )
        notes = [*(found.notes() if found else ()), *report.notes()]
    describe_origin(model, precision, source.origin.sha256, report)
    progress("checking and writing the result")
    save_checked(model, path, options.external_data)
    return tuple(notes)


def _islands(
    model: Any, options: OnnxOptions, data: Dataset, budget: DriftBudget, progress: Progress
) -> "tuple[Repair | None, list[str] | None]":
    """Which nodes of the float32 model have to stay in FP32, and what was rewritten before.

    Names the model's nodes. None for a model that computes in FP16 already, whose FP32 parts are
    taken to be meant.
    """
    from tfmp.converters.onnx import find_islands
    from tfmp.converters.onnx.emulation import name_nodes
    from tfmp.converters.onnx.fp16 import computes_in_fp16, prepare
    from tfmp.converters.onnx.rewrites import rewrite

    prepare(model)
    if computes_in_fp16(model):
        return None, None
    rewritten = rewrite(model, options.keep_fp32)
    name_nodes(model)
    found = find_islands(model, data.for_search(), budget, options.keep_fp32, progress, options.target)
    return found, rewritten


def _write_tflite(
    source: AnySource,
    path: Path,
    precision: str,
    options: TFLiteOptions,
    data: Dataset | None,
    progress: Progress,
    converter: "Worker | None",
) -> Findings:
    from tfmp.converters.tflite.export import export_tflite

    if isinstance(source, OnnxSource):
        raise InputError(
            f"{source.origin.path}: an ONNX file cannot become TFLite. Convert the Keras or "
            "TensorFlow model that it was exported from."
        )
    others = dict(source.siblings())
    if others and options.repair:
        raise InputError(
            f"repair works on one signature, received a SavedModel with {source.origin.signature!r}"
            f", {', '.join(map(repr, others))}. Choose one with signature (--signature)."
        )
    found = NOTHING_FOUND
    if precision == "fp16":
        with running_on_samples(source.name):
            source, found = _looked_at(source, options.repair, data, progress)
    sources = {str(source.origin.signature): source, **others} if others else source
    file = export_tflite(
        sources,
        path,
        precision,
        None if options.dynamic_batch else 1,
        options.accumulate,
        options.allow_flex,
        progress,
        converter,
    )
    if others:
        names = ", ".join(map(repr, file.signatures))
        told = f"signatures {names}; samples are compared with {source.origin.signature!r}"
        found = replace(found, notes=(told, *found.notes))
    return replace(found, notes=(*found.notes, *file.notes))


def _looked_at(
    source: Source, mend: bool, data: Dataset | None, progress: Progress
) -> tuple[Source, Findings]:
    """The model, repaired if that was asked for, and what overflows in FP16 on the samples."""
    from tfmp.converters.tflite.rewriting import overflows, repair_model

    if data is None:
        return source, Findings((_NO_SAMPLES,))
    if mend:
        progress("repairing what overflows in FP16")
        repaired = repair_model(source, lambda: (batch for batch, _ in data.batches()))
        changes = tuple(map(str, repaired.changes))
        left = _told("not repaired: {}. Change the layer, or ship it in FP32", repaired.left)
        return repaired.source, Findings(changes, left)
    if data.once:  # the validation needs these samples
        return source, Findings((_READ_ONCE,))
    progress("looking for what overflows in FP16")
    found = overflows(source, data.for_search())
    return source, Findings(overflows=_told("overflows in FP16: {}. Convert with --repair", found))


def _told(sentence: str, found: "Sequence[Overflow]") -> tuple[str, ...]:
    """The worst in words, and how many there are more."""
    told = [sentence.format(one.finding) for one in found[:_MOST_OVERFLOWS]]
    if len(found) > _MOST_OVERFLOWS:
        told.append(f"and {len(found) - _MOST_OVERFLOWS} layers more overflow in FP16")
    return tuple(told)
