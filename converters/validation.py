"""`validate`: run the original and its candidates on the same samples, compare, judge."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tfmp.converters.artifact import Progress, silent
from tfmp.converters.devices import choose
from tfmp.converters.drift.data import Dataset, open_data, synthetic
from tfmp.converters.drift.verdict import DriftBudget, check_overrides
from tfmp.converters.environment import environment
from tfmp.converters.errors import InputError
from tfmp.converters.files import check_folder
from tfmp.converters.intake import check_model_file, open_source
from tfmp.converters.latency import of_runner
from tfmp.converters.onnx.profiles import GPU, Profile
from tfmp.converters.report.model import DriftReport, Latency, ReferenceReport
from tfmp.converters.runners import Runner, reference_runner
from tfmp.converters.source import AnySource, OnnxSource, Source
from tfmp.converters.split import Baselines, NoiseFloor
from tfmp.converters.tensors import Batch
from tfmp.converters.trials import Explain, Trial, candidate_files, candidate_notes

# Called with the samples that are done, and how many there are in all if that is known.
Count = Callable[[int, int | None], None]


def uncounted(_: int, __: int | None) -> None:
    """A `Count` that goes nowhere."""


def open_model(model: Any, progress: Progress = silent, several: bool = False) -> AnySource:
    """Loads and traces a model, once for any number of conversions and validations.

    Args:
        model: whatever `open_source` takes, or what it returned.
        progress: called with a short text when a stage begins.
        several: see `open_source`.
    """
    if isinstance(model, Source | OnnxSource):
        return model
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    progress("loading the model")
    return open_source(model, several=several)


def prepare_data(source: AnySource, data: Any, labels: Any, budget: DriftBudget) -> Dataset:
    """Opens samples for `source` and checks all of the evidence that can be checked in advance."""
    if isinstance(data, Dataset):
        return data
    check_overrides(budget, [spec.name for spec in source.outputs])
    if data is None:
        if labels is not None:
            raise InputError("labels came without the samples they belong to: pass data too.")
        return synthetic(source.inputs)
    dataset = open_data(data, source.inputs, labels)
    dataset.check_first()
    return dataset


def validate(
    reference: Any,
    candidates: Any,
    data: Any = None,
    labels: Any = None,
    budget: DriftBudget | None = None,
    device: str = "auto",
    *,
    emulate: str | None = None,
    split: bool = False,
    explain: bool | str | Path = False,
    latency: bool = False,
    progress: Progress = silent,
    count: Count = uncounted,
) -> DriftReport:
    """Measures how far candidates are from the float32 original, and judges them.

    Args:
        reference: a Keras model, the path of one, or an open `Source`.
        candidates: a path, an `Artifact`, or a list of them.
        data: a dict of arrays by input name, an array, `(x, y)`, an iterable of batches, or a
            path (`.npz`, `.npy`, a folder of images, "package.module:function"). None for inputs
            made up from the signature, on which the verdict is INCONCLUSIVE at best.
        labels: class ids, one-hot rows or regression targets, if `data` has none.
        budget: the allowed drift, declared before the run; `DriftBudget()` if None.
        device: "cpu"; "gpu", for reference and candidates alike; or "auto", which takes a GPU for
            ONNX files where CUDA works. The report says what was chosen.
        emulate: what sums of FP16 ONNX files are held in where a CPU emulates them: "gpu" (FP32, as
            GPU kernels accumulate by default; so it is if this is None), "pessimistic" (FP16,
            rounded after every 16 terms) or "pessimistic:BLOCK".
        split: also measure where the drift comes from (FP32 file, FP16 weights, FP16 arithmetic)
            and the noise floor of float32. Takes a conversion to FP32 and three more runs.
        explain: also find the samples and the layers that the drift is from. A path is a folder
            that gets, for each candidate, the smallest model and input that show its error.
        latency: also time single calls of the reference and of every candidate.
        progress: called with a short text when a stage begins.
        count: called with the samples done and, where it is known, how many there are.

    Returns:
        The report; `report.verdict` is PASS, FAIL or INCONCLUSIVE.

    Raises:
        InputError: a model, the data, the budget, the device or the emulation cannot be used.
    """
    budget = budget or DriftBudget()
    profile = GPU if emulate is None else Profile.parse(emulate)
    files = candidate_files(candidates)
    suffixes = {path.suffix.lower() for path in files.values()}
    placing = choose(device, suffixes, emulate is not None)
    gpus = {".onnx": placing.onnx_gpu, ".tflite": placing.tflite_gpu}
    explained = _explain(explain)
    source = open_model(reference, progress)
    dataset = prepare_data(source, data, labels, budget)
    with ExitStack() as stack:
        original = stack.enter_context(reference_runner(source, placing.reference_gpu))
        progress("loading the candidates")
        baselines = Baselines(source, stack) if split else None
        noise = NoiseFloor(source) if split else None
        trials = [
            Trial(
                path,
                name,
                source,
                stack,
                baselines,
                gpus[path.suffix.lower()],
                profile,
                told,
                explained,
            )
            for (name, path), told in zip(files.items(), candidate_notes(candidates), strict=True)
        ]
        progress("comparing")
        sample: Batch = {}
        for inputs, labels in dataset.batches():
            sample = inputs
            expected = original.run(inputs)
            if baselines is not None and noise is not None:
                baselines.run(inputs)
                noise.update(inputs, expected)
            for trial in trials:
                trial.update(inputs, expected, labels)
            count(dataset.description.samples, dataset.samples)
        timing = None
        if latency:
            progress("timing calls")
            timing = of_runner(original, sample)
            for trial in trials:
                trial.measure_latency(sample)
        described = dataset.description
        if explained is not None:
            progress("explaining")
        judged = [trial.report(budget, described.synthetic) for trial in trials]
    return DriftReport.of(
        reference=_reference(source, original, noise, timing),
        candidates=judged,
        data=described,
        budget=budget,
        environment={"device": placing.text, **environment()},
    )


def _explain(explain: bool | str | Path) -> Explain | None:
    if isinstance(explain, bool):
        return Explain() if explain else None
    if not isinstance(explain, str | Path):
        raise InputError(
            "explain: expected True, False or a folder, received "
            f"{explain!r} ({type(explain).__name__})."
        )
    folder = Path(explain)
    check_folder(folder if folder.exists() else folder.parent)
    return Explain(folder)


def _reference(
    source: AnySource, original: Runner, noise: NoiseFloor | None, latency: Latency | None
) -> ReferenceReport:
    origin = source.origin
    notes = origin.notes
    if noise is not None and noise.error is not None:
        notes = (*notes, f"noise floor not measured: {noise.error}")
    return ReferenceReport(
        name=source.name,
        format=origin.format,
        path=str(origin.path) if origin.path else None,
        sha256=origin.sha256,
        size_bytes=origin.size_bytes,
        runner=original.info,
        notes=notes,
        noise_floor=noise.outputs() if noise is not None else (),
        latency=latency,
    )
