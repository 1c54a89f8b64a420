"""The candidates of a validation: which files, under which names, run and compared."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfmp.converters.comparison.drift_stages import Baselines, Split
from tfmp.converters.comparison.latency import of_file
from tfmp.converters.drift import Comparison, DriftBudget, match
from tfmp.converters.explain import Explainer, opener
from tfmp.converters.intake import AnySource, file_sha256
from tfmp.converters.onnx.emulation import GPU, Profile
from tfmp.converters.report import (
    NOTHING_FOUND,
    SUFFIXES,
    Artifact,
    CandidateReport,
    Findings,
    Latency,
)
from tfmp.converters.runners import Runner, RunnerInfo, open_runner
from tfmp.converters.samples import DataReport
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.tensors import Batch


def candidate_files(candidates: Any) -> dict[str, Path]:
    """Files by the name that a report gives them.

    Args:
        candidates: a path, an `Artifact`, or a list of them.

    Returns:
        In the order given. A name is the file's, with as many folders as tell files of the same
        name apart.

    Raises:
        InputError: none, no such file, one of another kind, or the same one twice.
    """
    items = list(candidates) if isinstance(candidates, list | tuple) else [candidates]
    if not items:
        raise InputError("no candidate to validate: give at least one .onnx or .tflite file.")
    paths = [_candidate_path(item) for item in items]
    resolved = [path.resolve() for path in paths]
    for path, times in Counter(resolved).items():
        if times > 1:
            raise InputError(f"{path}: is given {times} times as a candidate. Name it once.")
    depth = dict.fromkeys(resolved, 1)
    while True:
        names = {path: "/".join(path.parts[-depth[path] :]) for path in resolved}
        counts = Counter(names.values())
        alike = [path for path, name in names.items() if counts[name] > 1]
        if not alike:
            return {names[whole]: path for whole, path in zip(resolved, paths, strict=True)}
        for path in alike:
            depth[path] += 1


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
            f"suffix {path.suffix!r}. Name the converted file."
        )
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Name the converted file itself.")
    if not path.is_file():
        raise InputError(f"{path}: no such file. Convert the model first, or check the path.")
    if isinstance(candidate, Artifact) and file_sha256(path) != candidate.sha256:
        raise InputError(
            f"{path}: is no longer the file that was converted (its SHA-256 has changed). Convert "
            "again, or pass the path itself to validate the file as it is now."
        )
    return path


def candidate_findings(candidates: Any) -> list[Findings]:
    """What is known of each file from its conversion, in the order of `candidate_files`."""
    items = list(candidates) if isinstance(candidates, list | tuple) else [candidates]
    return [item.findings if isinstance(item, Artifact) else NOTHING_FOUND for item in items]


@dataclass(frozen=True)
class Explain:
    """That drift is to be explained.

    Attributes:
        folder: where to save, for each candidate, the smallest model that shows its error; None
            for nowhere.
    """

    folder: Path | None = None

    def folder_of(self, name: str) -> Path | None:
        """The folder of one candidate."""
        return self.folder / name.replace("/", "_") if self.folder is not None else None


class Trial:
    """One candidate: its runner, its comparison, and what stopped it, if anything did."""

    def __init__(
        self,
        path: Path,
        name: str,
        source: AnySource,
        stack: ExitStack,
        baselines: Baselines | None = None,
        gpu: bool = False,
        profile: Profile = GPU,
        findings: Findings = NOTHING_FOUND,
        explain: Explain | None = None,
    ) -> None:
        """Opens the file.

        Args:
            path: of the file.
            name: for the report.
            source: the reference.
            stack: holds the runner, and closes it.
            baselines: the reference as FP32 files, if the drift is to be split.
            gpu: run it on a GPU.
            profile: of the hardware that an FP16 ONNX file is emulated for.
            findings: of its conversion, which say more than the file itself can.
            explain: whether and how to explain the drift; None for not at all.
        """
        self.path, self.name = path, name
        self._signature = source.origin.signature
        self.format = path.suffix.lower().removeprefix(".")
        self._split: Split | None = None
        self._latency: Latency | None = None
        self._explainer: Explainer | None = None
        self.error: str | None = None
        self._comparison: Comparison | None = None
        self._info = RunnerInfo("none", "none", None)
        self._notes, self._overflows = findings.notes, findings.overflows
        self._sha256, self._size_bytes = file_sha256(path), path.stat().st_size
        with self._surviving():
            self._runner: Runner = stack.enter_context(
                open_runner(path, gpu, profile, source.origin.signature)
            )
            self._info = self._runner.info
            inputs = match(source.inputs, self._runner.inputs, name, "input")
            self._input_names, self._notes = (
                inputs.names,
                (*inputs.notes, *(findings.notes or self._runner.notes)),
            )
            self._comparison = Comparison(name, source.outputs, self._runner.outputs)
            self._output_names = match(source.outputs, self._runner.outputs, name).names
            if baselines is not None:
                self._split = Split(path, self.format, self._info, source, baselines, stack)
            if explain is not None:
                self._explainer = Explainer(
                    opener(path, self._info, source, profile, stack),
                    inputs.names,
                    self._output_names,
                    explain.folder_of(name),
                )

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
            received = self._runner.run(fed)
            self._comparison.update(expected, received, labels)
            named = {name: received[theirs] for name, theirs in self._output_names.items()}
            if self._split is not None:
                self._split.update(inputs, expected, named)
            if self._explainer is not None:
                self._explainer.update(inputs, expected, named)

    def start_over(self, label_kinds: Mapping[str, str] | None) -> None:
        """Forgets what was measured; see `Bench.start_over`."""
        if self._comparison is not None:
            self._comparison.start_over(label_kinds)
        if self._split is not None:
            self._split.start_over()

    @property
    def label_kinds(self) -> Mapping[str, str]:
        """How labels are read, by output, once there were any."""
        return self._comparison.label_kinds if self._comparison is not None else {}

    def measure_latency(self, inputs: Batch) -> None:
        """Times calls of the file, as far as it could be run.

        Args:
            inputs: some samples, by the reference's names.
        """
        if self.error is not None:
            return
        fed = {self._input_names[name]: array for name, array in inputs.items()}
        try:
            self._latency = of_file(self.path, fed, self._info, self._signature)
        except RunnerError as error:
            self._notes = (*self._notes, f"latency not measured: {error}")

    def report(self, budget: DriftBudget, data: DataReport) -> CandidateReport:
        """The judged candidate, explained if that was asked for."""
        explained = self._explainer if self.error is None else None
        compared = self._comparison if self.error is None else None
        return CandidateReport.judged(
            name=self.name,
            format=self.format,
            runner=self._info,
            budget=budget,
            outputs=compared.outputs() if compared else (),
            labels=compared.labels() if compared else (),
            synthetic=data.synthetic,
            nonfinite_inputs=data.nonfinite_values,
            path=str(self.path),
            sha256=self._sha256,
            size_bytes=self._size_bytes,
            notes=(*self._notes, *(compared.notes if compared else ())),
            overflows=self._overflows,
            error=self.error,
            latency=self._latency,
            stages=self._split.stages() if self._split and self.error is None else (),
            explanation=explained.explanation() if explained else None,
        )
