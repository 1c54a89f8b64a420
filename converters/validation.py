"""`validate`: run the original and its candidates on the same samples, compare, judge."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tfmp.converters.comparison import (
    Bench,
    Explain,
    Placing,
    Plan,
    candidate_files,
    candidate_findings,
    choose,
)
from tfmp.converters.drift import Comparison, DriftBudget, check_overrides
from tfmp.converters.intake import AnySource, OnnxSource, Source, check_model_file, open_source
from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.report import DriftReport, Findings, Progress, silent
from tfmp.converters.samples import Dataset, open_data, synthetic
from tfmp.converters.shared.errors import InputError, running_on_samples
from tfmp.converters.shared.files import check_folder

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
    first = dataset.first()
    if first is not None and first[1] is not None:
        inputs, labels = first
        with running_on_samples(source.name):
            expected = source.forward(inputs)
        Comparison("labels", source.outputs, source.outputs).update(expected, expected, labels)
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
    ray: str | None = None,
    workers: int | None = None,
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
        ray: compare on Ray's workers: "local" starts a Ray on this machine, "auto" and HOST:PORT
            take one that runs. The report is the same as without. Takes the extra `ray`.
        workers: how many there are to be; None for as many as fit, with four CPUs each.
        progress: called with a short text when a stage begins.
        count: called with the samples done and, where it is known, how many there are.

    Returns:
        The report; `report.verdict` is PASS, FAIL or INCONCLUSIVE.

    Raises:
        InputError: a model, the data, the budget, the device, the emulation or Ray cannot be used.
    """
    files = candidate_files(candidates)
    check_for_ray(ray, workers, explain=bool(explain), latency=latency)
    plan = Plan(
        budget=budget or DriftBudget(),
        device=device,
        profile=None if emulate is None else Profile.parse(emulate),
        split=split,
        explain=_explain(explain),
    )
    suffixes = {path.suffix.lower() for path in files.values()}
    placing = choose(device, suffixes, emulate is not None) if ray is None else None
    source = open_model(reference, progress)
    dataset = prepare_data(source, data, labels, plan.budget)
    findings = candidate_findings(candidates)
    if placing is None:
        from tfmp.converters.distributed import validate_on_ray

        return validate_on_ray(
            source, files, findings, dataset, plan, str(ray), workers, progress, count
        )
    return _validate_here(source, files, findings, dataset, plan, placing, latency, progress, count)


def _validate_here(
    source: AnySource,
    files: Mapping[str, Path],
    findings: Sequence[Findings],
    dataset: Dataset,
    plan: Plan,
    placing: Placing,
    latency: bool,
    progress: Progress,
    count: Count,
) -> DriftReport:
    with ExitStack() as stack:
        progress("loading the candidates")
        bench = Bench(source, files, findings, plan, placing, stack)
        progress("comparing")
        for inputs, labels in dataset.batches():
            bench.update(inputs, labels)
            count(dataset.description.samples, dataset.samples)
        if latency:
            progress("timing calls")
            bench.measure_latency()
        return bench.report(dataset.description, progress)


@contextmanager
def prepare_comparison(
    suffixes: Collection[str],
    *,
    device: str = "auto",
    emulate: str | None = None,
    explain: bool | str | Path = False,
    latency: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    **_: Any,
) -> Iterator[None]:
    """Finds before a conversion whatever would keep `validate` from comparing what it writes.

    A Ray that is to be used is connected to already, and stays so for the length of the block.

    Args:
        suffixes: of the files that will be written.
        device, emulate, explain, latency, ray, workers: see `validate`; its others cannot fail.

    Raises:
        InputError: what `validate` would raise of these.
    """
    check_for_ray(ray, workers, explain=bool(explain), latency=latency)
    _explain(explain)
    if emulate is not None:
        Profile.parse(emulate)
    if ray is None:
        if device != "auto" or emulate is not None:  # auto takes what there is
            choose(device, suffixes, emulate is not None)
        yield
        return
    from tfmp.converters.distributed import connected, resources, staffing

    with connected(ray, workers) as module:
        staffing(resources(module), workers, device, ".onnx" in suffixes)
        yield


def check_for_ray(
    ray: str | None, workers: int | None, *, explain: bool = False, latency: bool = False
) -> None:
    """Raises `InputError` for workers without Ray, and what Ray's workers cannot measure."""
    if ray is None:
        if workers is None:
            return
        raise InputError(f"workers are Ray's, received workers={workers!r} without ray. Give both.")
    from tfmp.converters.distributed import check_workers

    check_workers(workers)
    for name, asked, why in (
        ("explain", explain, "looks into one model on the worst samples of all"),
        ("latency", latency, "is measured on a machine that does nothing else"),
    ):
        if asked:
            raise InputError(
                f"{name} {why}, so not on Ray's workers. Leave it out, and run it without ray on "
                "some of the samples."
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
