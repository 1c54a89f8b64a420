"""`convert` and `validate`: source -> export -> FP16 -> run -> compare -> report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfmp.converters.drift.compare import Comparison, match
from tfmp.converters.drift.data import Dataset, open_data
from tfmp.converters.drift.verdict import DriftBudget, check_overrides
from tfmp.converters.environment import environment
from tfmp.converters.errors import InputError, RunnerError
from tfmp.converters.files import check_output, replacing
from tfmp.converters.report.model import CandidateReport, DriftReport, ReferenceReport
from tfmp.converters.runners import KerasRunner, Runner, RunnerInfo, open_runner, open_session
from tfmp.converters.source import Source, check_model_file, file_sha256, open_source
from tfmp.converters.tensors import Batch

SUFFIXES = {"onnx": ".onnx", "tflite": ".tflite"}
PRECISIONS = ("fp16", "fp32")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Artifact:
    """A converted model on disk.

    Attributes:
        path: of the file.
        format: "onnx" or "tflite".
        precision: "fp16" or "fp32".
        size_bytes: of the file.
        sha256: of the file.
        notes: what a user should know: layers kept in FP32, constants that lost precision.
        report: drift against the original, where `data` was given.
    """

    path: Path
    format: str
    precision: str
    size_bytes: int
    sha256: str
    notes: tuple[str, ...] = ()
    report: DriftReport | None = field(default=None, compare=False)


def silent(_: str) -> None:
    """Progress that goes nowhere."""


def convert(
    model: Any,
    to: str = "onnx",
    output: str | Path | None = None,
    precision: str = "fp16",
    data: Any = None,
    budget: DriftBudget | None = None,
    *,
    labels: Any = None,
    keep_fp32: Sequence[str] = (),
    batch_size: int | None = 1,
    accumulate: str = "fp32",
    allow_flex: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> Artifact:
    """Converts a model to a static ONNX or TFLite file.

    Args:
        model: a built Keras model, the path of a `.keras` or `.h5` file, or an open `Source`.
        to: "onnx" or "tflite".
        output: file to write; by default the model's name with the format's suffix, beside the
            model's file (for a live model, in the working directory).
        precision: "fp16" or "fp32".
        data: samples to validate the result on; see `validate`.
        budget: allowed drift of that validation.
        labels: see `validate`.
        keep_fp32: regular expressions over node names, Keras layers and op types that stay in
            FP32 (ONNX only: a TFLite file cannot mix precisions).
        batch_size: samples the file takes at a time; None for any number (TFLite only: an ONNX
            file always takes any number).
        accumulate: the sums that the file allows FP16 hardware, "fp32" or "fp16" (TFLite only).
        allow_flex: keep ops that TFLite lacks as TensorFlow ops, which plain LiteRT cannot run.
        force: replace an existing output.
        progress: called with a short text when a stage begins.

    Returns:
        The file that was written; its `report` where data was given.

    Raises:
        InputError: the model, an option or the output path cannot be used.
        ConversionError: the model has a part that the format cannot express.
    """
    _check_choice("to", to, tuple(SUFFIXES))
    _check_choice("precision", precision, PRECISIONS)
    if keep_fp32 and (to, precision) != ("onnx", "fp16"):
        raise InputError(
            f"keep_fp32 needs an FP16 ONNX file, received to={to!r}, precision={precision!r}: a "
            "TFLite file cannot mix precisions. Convert to ONNX, or leave keep_fp32 out."
        )
    if to != "tflite" and (batch_size, accumulate, allow_flex) != (1, "fp32", False):
        raise InputError(
            f"batch_size, accumulate and allow_flex are for TFLite files, received to={to!r}. "
            "Leave them out, or convert with to='tflite'."
        )
    path = check_conversion(model, to, output, force)
    source = open_model(model, progress)
    budget = budget or DriftBudget()
    if data is not None:
        data = prepare_data(source, data, labels, budget)
    if to == "onnx":
        notes = _write_onnx(source, path, precision, tuple(keep_fp32), progress)
    else:
        notes = _write_tflite(source, path, precision, batch_size, accumulate, allow_flex, progress)
    report = None
    if data is not None:
        report = validate(source, path, data, budget=budget, progress=progress)
    return Artifact(
        path=path,
        format=to,
        precision=precision,
        size_bytes=path.stat().st_size,
        sha256=file_sha256(path),
        notes=(*source.notes, *notes),
        report=report,
    )


def check_conversion(model: Any, to: str, output: str | Path | None, force: bool) -> Path:
    """Where `convert` will write; raises `InputError` if it could not, before any work is done."""
    path = Path(output) if output is not None else _default_output(model, to)
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    check_output(path, SUFFIXES[to], force)
    return path


def _default_output(model: Any, to: str) -> Path:
    if isinstance(model, str | Path):
        return Path(model).with_suffix(SUFFIXES[to])
    if isinstance(model, Source) and model.path is not None:
        return model.path.with_suffix(SUFFIXES[to])
    return Path(model.name).with_suffix(SUFFIXES[to])


def open_model(model: Any, progress: Progress = silent) -> Source:
    """Loads and traces a model, once for any number of conversions and validations."""
    if isinstance(model, Source):
        return model
    if isinstance(model, str | Path):
        check_model_file(Path(model))
    progress("loading the model")
    return open_source(model)


def prepare_data(source: Source, data: Any, labels: Any, budget: DriftBudget) -> Dataset:
    """Opens samples for `source` and checks all of the evidence that can be checked in advance."""
    if isinstance(data, Dataset):
        return data
    check_overrides(budget, [spec.name for spec in source.outputs])
    dataset = open_data(data, source.inputs, labels)
    dataset.check_first()
    return dataset


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}, received {value!r}.")


def _write_onnx(
    source: Source, path: Path, precision: str, keep_fp32: tuple[str, ...], progress: Progress
) -> list[str]:
    import onnx_ir as ir

    from tfmp.converters.onnx.export import check_export, export_onnx
    from tfmp.converters.onnx.fp16 import to_fp16
    from tfmp.converters.onnx.types import check

    model = export_onnx(source, progress=progress)
    progress("checking the float32 export")
    check_export(model, source)
    notes = []
    if precision == "fp16":
        progress("rewriting to FP16")
        model, report = to_fp16(model, keep_fp32)
        notes = report.notes()
    progress("checking the result")
    check(model)
    with replacing(path) as temporary:
        ir.save(model, temporary)
        open_session(temporary)
    return notes


def _write_tflite(
    source: Source,
    path: Path,
    precision: str,
    batch_size: int | None,
    accumulate: str,
    allow_flex: bool,
    progress: Progress,
) -> list[str]:
    from tfmp.converters.tflite.export import export_tflite

    file = export_tflite(source, path, precision, batch_size, accumulate, allow_flex, progress)
    return list(file.notes)


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
    _check_choice("device", device, ("auto", "cpu"))
    budget = budget or DriftBudget()
    paths = [_candidate_path(item) for item in _as_list(candidates)]
    if not paths:
        raise InputError("no candidate to validate: give at least one .onnx or .tflite file.")
    source = open_model(reference, progress)
    dataset = prepare_data(source, data, labels, budget)
    with ExitStack() as stack:
        original = stack.enter_context(KerasRunner(source))
        trials = [_Trial(path, source, stack) for path in paths]
        _compare_all(original, trials, dataset, progress)
        described = dataset.description
        judged = [trial.report(budget, described.synthetic) for trial in trials]
    return DriftReport.of(
        reference=ReferenceReport(
            name=source.name,
            format="keras",
            path=str(source.path) if source.path else None,
            sha256=source.sha256,
            size_bytes=source.path.stat().st_size if source.path else None,
            runner=original.info,
            notes=source.notes,
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

    def __init__(self, path: Path, source: Source, stack: ExitStack) -> None:
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
