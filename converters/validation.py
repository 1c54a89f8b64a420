"""`validate`: run the original and its candidates on the same samples, compare, judge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.comparison import (
    Plan,
    candidate_files,
    needs_one_by_one,
)
from tfmp.converters.distributed import comparing
from tfmp.converters.drift import Comparison, DriftBudget
from tfmp.converters.drift.verdict import check_overrides
from tfmp.converters.elsewhere import on_tensorflow
from tfmp.converters.intake import (
    AnySource,
    Source,
    is_open,
    request_of,
    with_loading,
)
from tfmp.converters.remedies import with_remedies
from tfmp.converters.report import DriftReport
from tfmp.converters.samples import (
    Samples,
    check_class_folders,
    made_up,
    open_in_layout,
    whole_numbers,
)
from tfmp.converters.shared.errors import InputError, running_on_samples
from tfmp.converters.shared.layout import PLAIN
from tfmp.converters.shared.memory import free_graphs
from tfmp.shared.progress import OnCount, OnStage, Progress, listening


@on_tensorflow
def validate(
    reference: Any,
    candidates: Any,
    data: Any = None,
    labels: Any = None,
    budget: DriftBudget | None = None,
    device: str = "auto",
    *,
    emulate: str | None = None,
    target: str | Sequence[str] = (),
    split: bool = False,
    explain: bool | str | Path = False,
    latency: bool | Sequence[int] = False,
    ray: str | None = None,
    workers: int | None = None,
    tasks: Mapping[str, str] | None = None,
    metric: Any = None,
    sizes: Any = None,
    progress: OnStage = None,
    count: OnCount = None,
    **loading: Any,
) -> DriftReport:
    """Measures how far candidates are from the float32 original, and judges them.

    Args:
        reference: a Keras model, the path of one, or an open `Source`.
        candidates: a path, an `Artifact`, or a list of them.
        data: a dict of arrays by input name, an array, `(x, y)`, an iterable of batches, or a
            path (`.npz`, `.npy`, a folder of images, "FILE.py:function"). None for inputs
            made up from the signature, on which the verdict is INCONCLUSIVE at best.
        labels: class ids, one-hot rows or regression targets, if `data` has none.
        budget: the allowed drift, declared before the run; `DriftBudget()` if None.
        device: "cpu"; "gpu", for reference and candidates alike; or "auto", which takes a GPU for
            ONNX files where CUDA works. The report names the choice.
        emulate: arithmetic that a CPU emulates for FP16 ONNX files: "gpu" (sums in FP32),
            "pessimistic" (sums in FP16, rounded after every 16 terms; or "pessimistic:BLOCK"), or a
            runtime: "ort-cuda" (or "ort-cuda:VERSION"), "tensorrt", "litert-gpu", "litert-cpu" or
            "webgpu". None for the target that a file was converted for, or "ort-cuda".
        target: runtimes that ONNX files are judged for, each with a verdict of its own, or "all".
        split: also measure the share of each step in the drift (FP32 file, FP16 weights, FP16
            arithmetic) and the noise floor of float32. Takes a conversion to FP32 and three more
            runs.
        explain: also find the samples and the layers that the drift is from. A path is a folder
            that gets, for each candidate, the smallest model and input that show its error.
        latency: also time single calls of the reference and of every candidate. Batch sizes, such
            as (1, 8, 32), also time calls with so many samples, with the memory that they take, and
            a Keras reference in float32 and in mixed precision beside the files.
        ray: compare on Ray's workers: "local" starts a Ray on this machine, "auto" and HOST:PORT
            take one that runs. The report is the same as without Ray. Needs the extra `ray`.
        workers: number of workers for `ray`; None for as many as fit, with four CPUs each.
        tasks: meanings of outputs by name, each as "KIND", "KIND:axis=A" or, for the corners of
            boxes, "detection:columns=0-3". KIND is classification, multilabel, binary, regression,
            embedding, detection, tokens, ids, reconstruction or other. Outputs that are not named
            are judged by their meaning as labels, the compiled loss, the last operator or names
            tell it.
        metric: a metric of your own, such as mAP or WER: "FILE.py:function" or a function
            of predictions and labels that gives a number, higher is better; or several in a list.
        sizes: shapes by input name, samples first, as in {"tokens": (4, 6000)}, or several in a
            list: the files are also judged on samples of these sizes, made of the values of `data`.
            Such samples can make the verdict FAIL and certify nothing.
        progress: called with a short text when a stage begins. In a notebook, a bar shows progress
            unless `progress` or `count` is given.
        count: called with the number of samples done and, where it is known, of all samples.
        **loading: the arguments of `open_source` for the reference, such as `input_shapes`.

    Returns:
        The report; `report.verdict` is PASS, FAIL or INCONCLUSIVE.

    Raises:
        InputError: a model, the data, the budget, the device, the emulation, Ray, a task or a
            metric cannot be used.
    """
    plan = Plan.of(
        budget=budget,
        device=device,
        emulate=emulate,
        target=target,
        split=split,
        explain=explain,
        latency=latency,
        ray=ray,
        workers=workers,
        tasks=tasks,
        metric=metric,
        sizes=sizes,
    )
    reference, unknown = with_loading(reference, loading)
    if unknown:
        raise InputError(f"{', '.join(unknown)}: no option of validate.")
    with listening(progress, count) as told:
        return validate_files(reference, candidates, data, labels, plan, told)


def validate_files(
    reference: Any, candidates: Any, data: Any, labels: Any, plan: Plan, progress: Progress
) -> DriftReport:
    """`validate` by a plan."""
    if data is None and labels is not None:
        raise InputError(
            "labels (--labels) came without the samples they belong to: give data (--data), too."
        )
    check_model(reference)
    files = candidate_files(candidates)
    with comparing(plan, {file.format for file in files}) as compare:
        source = open_model(reference, progress, data)
        samples = open_samples(source, data, labels, plan)
        evidence = compare(source, files, samples, progress)
    report = DriftReport.judged(evidence, plan.budget)
    left = {one.path for one in report.candidates if one.verdict != "PASS" and not one.error}
    made = (file.format.made(file.path) for file in files if str(file.path) in left)
    targets = [plan.judging(target) for target in made if target]
    return with_remedies(report, source, targets, samples, plan, progress)


def check_model(model: Any) -> None:
    """Raises the `InputError`s of `open_model` that take no framework to find."""
    if not is_open(model):
        request_of(model).check()


def open_model(model: Any, progress: Progress, data: Any = None) -> AnySource:
    """Loads and traces a model, once for any number of conversions and validations.

    Args:
        model: anything that `open_source` takes, its result, or a `ModelRequest`.
        progress: told that the stage begins.
        data: the samples; a model that does not declare whether its inputs are integers is traced
            as these are.
    """
    if is_open(model):
        return model
    progress("loading the model")
    request = request_of(model)
    if data is not None:
        request = replace(request, whole_numbers=partial(whole_numbers, data))
    source = request.open()
    free_graphs(source.origin.size_bytes or 0)
    return source


def open_samples(source: AnySource, data: Any, labels: Any, plan: Plan) -> Samples:
    """Opens samples for a model and checks all of the evidence that can be checked in advance.

    Args:
        source: the model.
        data: see `validate`; None for made-up samples.
        labels: of the samples.
        plan: of the validation; its tasks and the overrides of its budget name outputs.

    Raises:
        InputError: the samples or labels do not fit the model, a task or an override fits no
            output, or a metric comes without labels.
    """
    samples = _laid_out(source, data, labels)
    outputs = samples.layout.outputs(source.outputs)
    check_overrides(plan.budget, [spec.name for spec in outputs])
    comparison = Comparison(
        *("labels", outputs, outputs, plan.tasks, source.hints, plan.metrics),
        steps=bool(samples.layout.states),
    )
    if samples.labels is None:
        check_class_folders(samples.stream, outputs, comparison.tasks)
    first = samples.first()
    if needs_one_by_one(source, samples, first):
        samples = replace(samples, one_by_one=True)
        first = next(first.singly()) if first is not None else None
    if data is None or first is not None:
        _check_metrics(plan, first is not None and first.labels is not None)
    if first is not None and first.labels is not None:
        with running_on_samples(source.name):
            expected = samples.layout.run(source.forward, source.inputs, first.inputs)
        comparison.update(expected, expected, first.labels, first.keys)
    return samples


def with_rows(source: AnySource, samples: Samples | None) -> AnySource:
    """The same model with a call's inputs of the data, to check what is made of it on."""
    if samples is None or not isinstance(source, Source) or samples.layout != PLAIN:
        return source
    first = samples.first()
    if first is None or not all(map(_is_finite, first.inputs.values())):
        return source
    return replace(source, sampled=first.inputs)


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _laid_out(source: AnySource, data: Any, labels: Any) -> Samples:
    """The samples as the data has them, with the way to the model's own calls."""
    if data is None:
        samples = made_up(source.layout.inputs(source.inputs))
        samples = replace(samples, layout=source.layout)
    else:
        samples = open_in_layout(data, labels, source.inputs, source.outputs, source.layout)
    layout = samples.layout
    return replace(samples, calls=lambda batch: layout.calls(source.forward, source.inputs, batch))


def _check_metrics(plan: Plan, labelled: bool) -> None:
    for metric in plan.metrics:
        if not labelled:
            raise InputError(
                f"metric {metric.name!r} (--metric) compares predictions with labels, and the "
                "samples have no labels. Pass labels (--labels), or leave the metric out."
            )
