"""`convert`: a model becomes files, which are compared with it and judged."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfmp.converters.comparison import JUDGING, Plan, candidate_files
from tfmp.converters.distributed import comparing
from tfmp.converters.drift import DriftBudget
from tfmp.converters.elsewhere import on_tensorflow
from tfmp.converters.formats import PRECISIONS, Format, Target, format_named
from tfmp.converters.intake import (
    AnySource,
    file_sha256,
    is_open,
    name_of,
    path_of,
    request_of,
    with_loading,
)
from tfmp.converters.remedies import with_remedies
from tfmp.converters.report import Artifact, DriftReport
from tfmp.converters.samples import Samples
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.files import as_path, check_output
from tfmp.converters.shared.memory import free_graphs
from tfmp.converters.shared.options import check_choice, check_flag, options_of, read_options
from tfmp.converters.validation import (
    check_model,
    open_model,
    open_samples,
    with_rows,
)
from tfmp.shared.progress import OnCount, OnStage, Progress, listening

# Options of the command line that have another name than the keyword.
_FLAGS = {"tasks": "task"}


@on_tensorflow
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
    progress: OnStage = None,
    count: OnCount = None,
    **options: Any,
) -> Artifact:
    """Converts a model to a static ONNX or TFLite file.

    Args:
        model: anything that `open_source` takes, or its result.
        to: "onnx" or "tflite".
        output: file to write, or a folder for it; by default the model's name with the format's
            suffix, beside the model's file (for a live model, in the working directory).
        precision: "fp16", "fp32", or for ONNX "bf16", or "mixed": FP16 with as few nodes in FP32 as
            keep the budget on `data`.
        data: samples to validate the result on; see `validate`.
        budget: allowed drift of that validation.
        labels: of the samples.
        force: replace an existing output.
        progress: called with a short text when a stage begins.
        count: see `validate`.
        **options: the fields of `OnnxOptions` or `TFLiteOptions`; the arguments of `open_source`,
            such as `input_shapes`; and those of `validate` that say how the result is judged:
            device, emulate, split, explain, latency, ray, workers, tasks, metric and sizes.

    Returns:
        The file that was written; its `report` where data was given.

    Raises:
        InputError: the model, an option or the output path cannot be used.
        ConversionError: the model has a part that the format cannot express.
    """
    model, options = with_loading(model, options)
    judging = {name: options.pop(name) for name in JUDGING & options.keys()}
    plan = Plan.of(budget=budget, target=options.get("target", ()), **judging)
    if data is None:
        check_nothing_asked(plan, labels=labels, budget=budget)
    targets = targets_of(model, {to: output}, precision, options, data is not None, force)
    with listening(progress, count) as told:
        (artifact,), report = convert_files(model, targets, data, labels, plan, told)
    return replace(artifact, report=report)


def convert_files(
    model: Any, targets: Sequence[Target], data: Any, labels: Any, plan: Plan, progress: Progress
) -> tuple[tuple[Artifact, ...], DriftReport | None]:
    """Converts a model to several files, and validates all of them in one run.

    Args:
        model: see `convert`; loaded once.
        targets: the files to write.
        data: samples; None for no validation.
        labels: of the samples.
        plan: of the validation.
        progress: told of stages and samples.

    Returns:
        The files in the order of the targets, and the drift of all of them against the original;
        None without samples.
    """
    formats = {target.format for target in targets}
    with ExitStack() as stack:
        compare = stack.enter_context(comparing(plan, formats)) if data is not None else None
        with ExitStack() as starting:
            helpers = {each: starting.enter_context(each.starting()) for each in formats}
            source = open_model(_for_formats(model, formats), progress, data)
            samples = None if data is None else open_samples(source, data, labels, plan)
            source = with_rows(source, samples)
            searched = list(map(plan.judging, targets))
            artifacts = _written(source, samples, searched, helpers, progress)
        if compare is None or samples is None:
            return artifacts, None
        try:
            evidence = compare(source, candidate_files(list(artifacts)), samples, progress)
        except InputError as error:  # a mistake that shows only late in the data
            files = " and ".join(str(artifact.path) for artifact in artifacts)
            told = f"{error} Converted before that, complete and kept: {files}."
            raise InputError(told) from error
    report = DriftReport.judged(evidence, plan.budget)
    return artifacts, with_remedies(report, source, searched, samples, plan, progress)


def _written(
    source: AnySource,
    samples: Samples | None,
    targets: Sequence[Target],
    helpers: Mapping[Format, Any],
    progress: Progress,
) -> tuple[Artifact, ...]:
    """Writes every file that can be written.

    Raises:
        ConversionError: a format cannot express the model; the text names the files that could be
            written.
    """
    _refuse_complex(source)
    artifacts: list[Artifact] = []
    failures: list[ConversionError] = []
    for target in targets:
        try:
            helper = helpers[target.format]
            artifacts.append(_write(source, samples, target, helper, progress))
            free_graphs(artifacts[-1].size_bytes)
        except ConversionError as error:
            failures.append(error)
    if failures:
        told = " ".join(dict.fromkeys(map(str, failures)))
        files = ", ".join(str(artifact.path) for artifact in artifacts)
        left = f" Converted, but not compared: {files}." if files else ""
        raise ConversionError(told + left) from failures[0]
    return tuple(artifacts)


def _refuse_complex(source: AnySource) -> None:
    """Raises `ConversionError` for complex inputs and outputs, which no runtime of a file takes."""
    for kind, specs in (("input", source.inputs), ("output", source.outputs)):
        for spec in specs:
            if spec.dtype.startswith("complex"):
                raise ConversionError(
                    f"model {source.name!r}: {kind} {spec.name!r} is {spec.dtype}, which neither "
                    "ONNX Runtime nor LiteRT takes. Let the model take or give its real and "
                    "imaginary parts instead (tf.math.real, tf.math.imag)."
                )


def targets_of(
    model: Any,
    outputs: Mapping[str, str | Path | None],
    precision: str,
    options: Mapping[str, Any],
    sampled: bool,
    force: bool,
) -> list[Target]:
    """The files to write, checked before any work is done for them.

    Among several, a format without a precision takes "fp16", with its `instead_of_mixed` for
    "mixed".

    Args:
        model: see `convert`.
        outputs: path of the file, or None for the model's name, by the name of its format.
        precision: see `convert`.
        options: by name; of several formats together, of which each takes its own.
        sampled: whether samples come with the conversion.
        force: replace existing files.

    Raises:
        InputError: something of it cannot be used.
    """
    check_choice("precision", precision, PRECISIONS)
    check_flag("force", force)
    batch_size = None if is_open(model) else request_of(model).batch_size
    targets = []
    for to, output in outputs.items():
        format, its_own, chosen = format_named(to), precision, dict(options)
        if len(outputs) > 1:
            own = {field.name for field, _ in options_of(format.options)}
            chosen = {name: value for name, value in options.items() if name in own}
        if len(outputs) > 1 and precision not in format.precisions:
            its_own = "fp16"
            chosen |= format.instead_of_mixed if precision == "mixed" else {}
        read: Any = read_options(format.options, chosen, f"a conversion to {to}")
        format.check(its_own, read, sampled, batch_size)
        check_model(model)
        path = _output(model, output, format, "fp16" if its_own == "mixed" else its_own)
        check_output(path, format.suffix, force)
        targets.append(Target(format, path, its_own, read))
    return targets


def _output(model: Any, output: str | Path | None, format: Format, narrow: str) -> Path:
    """The path of a file, which is not the model's own."""
    original = path_of(model)
    if original is None:
        path = Path(name_of(request_of(model).model)).with_suffix(format.suffix)
    else:
        same = original.suffix == format.suffix
        path = original.with_suffix(f".{narrow}{format.suffix}" if same else format.suffix)
    if output is not None:
        named = as_path("output", output)
        into = named.is_dir() or str(output).endswith(os.sep)
        path = named / path.name if into else named
    # An open model may outlive its own file.
    if original is not None and path.exists() and original.exists() and path.samefile(original):
        raise InputError(f"{path}: is the model itself. Name another output with -o FILE.")
    return path


def check_nothing_asked(plan: Plan, **others: Any) -> None:
    """Raises `InputError` for options of a validation that will not be."""
    given = {name: value for name, value in others.items() if value is not None}
    for name in (*given, *plan.asked()):
        raise InputError(
            f"{name} (--{_FLAGS.get(name, name)}) needs samples to compare on, and this conversion "
            f"has no data. Pass data (--data FILE), or leave {name} out."
        )


def _for_formats(model: Any, formats: Collection[Format]) -> Any:
    """The model to open, with all of its signatures where every format takes them."""
    if is_open(model):
        return model
    everywhere = all(format.all_signatures for format in formats)
    return replace(request_of(model), all_signatures=everywhere)


def _write(
    source: AnySource,
    samples: Samples | None,
    target: Target,
    helper: Any,
    progress: Progress,
) -> Artifact:
    """Writes one file, without validating it.

    Raises:
        InputError: the samples can be read only once, but are searched on.
        ConversionError: the model has a part that the format cannot express.
    """
    search = target.format.searches(target)
    if search is not None and samples is not None and samples.stream.once:
        raise InputError(
            f"{search} reads the data more than once, to search and to validate, received data "
            "that can be read only once. Pass arrays or a function that makes a new iterator."
        )
    known = target.format.write(source, target, samples, helper, progress)
    diverged = [f"weights are NaN: {source.nan_weights}"] if source.nan_weights else []
    return Artifact(
        path=target.path,
        format=target.format.name,
        precision="fp32" if known.float32 else target.precision,
        size_bytes=target.path.stat().st_size,
        sha256=file_sha256(target.path),
        known=replace(known, notes=(*source.origin.notes, *diverged, *known.notes)),
    )
