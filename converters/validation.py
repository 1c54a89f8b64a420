"""`validate`: run the original and its candidates on the same samples, compare, judge."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tfmp.converters.artifact import SUFFIXES, Artifact, Progress, check_choice, silent
from tfmp.converters.drift.compare import Comparison, match
from tfmp.converters.drift.data import Dataset, open_data
from tfmp.converters.drift.verdict import DriftBudget, check_overrides
from tfmp.converters.environment import environment
from tfmp.converters.errors import InputError, RunnerError
from tfmp.converters.intake import check_model_file, open_source
from tfmp.converters.report.model import CandidateReport, DriftReport, ReferenceReport
from tfmp.converters.runners import Runner, RunnerInfo, SourceRunner, open_runner
from tfmp.converters.source import AnySource, OnnxSource, Source, file_sha256
from tfmp.converters.tensors import Batch


def open_model(model: Any, progress: Progress = silent) -> AnySource:
    """Loads and traces a model, once for any number of conversions and validations."""
    if isinstance(model, Source | OnnxSource):
        return model
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    progress("loading the model")
    return open_source(model)


def prepare_data(source: AnySource, data: Any, labels: Any, budget: DriftBudget) -> Dataset:
    """Opens samples for `source` and checks all of the evidence that can be checked in advance."""
    if isinstance(data, Dataset):
        return data
    check_overrides(budget, [spec.name for spec in source.outputs])
    dataset = open_data(data, source.inputs, labels)
    dataset.check_first()
    return dataset


def validate(
    reference: Any,
    candidates: Any,
    data: Any,
    labels: Any = None,
    budget: DriftBudget | None = None,
    device: str = "auto",
    *,
    progress: Progress = silent,
) -> DriftReport:
    """Measures how far candidates are from the float32 original, and judges them.

    Args:
        reference: a Keras model, the path of one, or an open `Source`.
        candidates: a path, an `Artifact`, or a list of them.
        data: a dict of arrays by input name, an array, `(x, y)`, an iterable of batches, or a
            path (`.npz`, `.npy`, a folder of images, "package.module:function").
        labels: class ids, one-hot rows or regression targets, if `data` has none.
        budget: the allowed drift, declared before the run; `DriftBudget()` if None.
        device: "auto" or "cpu".
        progress: called with a short text when a stage begins.

    Returns:
        The report; `report.verdict` is PASS, FAIL or INCONCLUSIVE.

    Raises:
        InputError: a model, the data or the budget cannot be used.
    """
    check_choice("device", device, ("auto", "cpu"))
    budget = budget or DriftBudget()
    paths = [_candidate_path(item) for item in _as_list(candidates)]
    if not paths:
        raise InputError("no candidate to validate: give at least one .onnx or .tflite file.")
    source = open_model(reference, progress)
    dataset = prepare_data(source, data, labels, budget)
    with ExitStack() as stack:
        original = stack.enter_context(SourceRunner(source))
        trials = [_Trial(path, source, stack) for path in paths]
        _compare_all(original, trials, dataset, progress)
        described = dataset.description
        judged = [trial.report(budget, described.synthetic) for trial in trials]
    return DriftReport.of(
        reference=ReferenceReport(
            name=source.name,
            format=source.origin.format,
            path=str(source.origin.path) if source.origin.path else None,
            sha256=source.origin.sha256,
            size_bytes=source.origin.size_bytes,
            runner=original.info,
            notes=source.origin.notes,
        ),
        candidates=judged,
        data=described,
        budget=budget,
        environment=environment(),
    )


def _as_list(candidates: Any) -> list[Any]:
    return list(candidates) if isinstance(candidates, list | tuple) else [candidates]


def _candidate_path(candidate: Any) -> Path:
    path = candidate.path if isinstance(candidate, Artifact) else candidate
    if not isinstance(path, str | Path):
        raise InputError(
            f"expected a candidate to be a path or an Artifact, received {type(path).__name__}."
        )
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES.values():
        raise InputError(
            f"{path}: expected a candidate ending in {' or '.join(SUFFIXES.values())}, received "
            f"suffix {path.suffix!r}."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file. Convert the model first, or check the path.")
    return path


class _Trial:
    """One candidate: its runner, its comparison, and what stopped it, if anything did."""

    def __init__(self, path: Path, source: AnySource, stack: ExitStack) -> None:
        self.path = path
        self.error: str | None = None
        self._comparison: Comparison | None = None
        self._info = RunnerInfo("none", "none", None)
        self._notes: tuple[str, ...] = ()
        with self._surviving():
            self._runner: Runner = stack.enter_context(open_runner(path))
            self._info = self._runner.info
            inputs = match(source.inputs, self._runner.inputs, path.name, "input")
            self._input_names, self._notes = inputs.names, inputs.notes
            self._comparison = Comparison(path.name, source.outputs, self._runner.outputs)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A failure inside costs this candidate, not the run."""
        try:
            yield
        except RunnerError as error:
            self.error = str(error)

    def update(self, inputs: Batch, expected: Batch, labels: Any) -> None:
        """Runs and compares one batch, unless an earlier one failed."""
        if self.error is not None or self._comparison is None:
            return
        with self._surviving():
            fed = {self._input_names[name]: array for name, array in inputs.items()}
            self._comparison.update(expected, self._runner.run(fed), labels)

    def report(self, budget: DriftBudget, synthetic: bool) -> CandidateReport:
        """The judged candidate."""
        compared = self._comparison if self.error is None else None
        return CandidateReport.judged(
            name=self.path.name,
            format=self.path.suffix.lower().removeprefix("."),
            runner=self._info,
            budget=budget,
            outputs=compared.outputs() if compared else (),
            labels=compared.labels() if compared else (),
            synthetic=synthetic,
            path=str(self.path),
            sha256=file_sha256(self.path),
            size_bytes=self.path.stat().st_size,
            notes=(*self._notes, *(compared.notes if compared else ())),
            error=self.error,
        )


def _compare_all(
    original: Runner, trials: Sequence[_Trial], dataset: Dataset, progress: Progress
) -> None:
    """Runs the reference once per batch for all candidates."""
    done = 0
    for inputs, labels in dataset.batches():
        expected = original.run(inputs)
        for trial in trials:
            trial.update(inputs, expected, labels)
        done += len(next(iter(inputs.values())))
        progress(f"comparing: {done} samples")
