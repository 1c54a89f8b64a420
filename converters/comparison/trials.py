"""The candidates of a validation: which files, under which names, run and compared."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.comparison.devices import machine_failure, opened_where_possible
from tfmp.converters.comparison.drift_stages import DriftStages, Split
from tfmp.converters.comparison.latency import latency_of
from tfmp.converters.comparison.plan import Plan
from tfmp.converters.drift import Comparison, Kind, OutputDrift, match
from tfmp.converters.drift.verdict import Verdict, judge
from tfmp.converters.explain import Explainer
from tfmp.converters.formats import Format, format_of
from tfmp.converters.intake import AnySource, file_sha256
from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.onnx.fp16 import CUDA
from tfmp.converters.report import Artifact, CandidateEvidence, FileNotes, Latency
from tfmp.converters.runners import Runner, RunnerInfo, laid_out
from tfmp.converters.samples import SampleBatch
from tfmp.converters.shared.errors import InputError, MachineError, RunnerError
from tfmp.converters.shared.files import check_name, check_no_pointer
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch

IN_FP32 = "This file computes in FP32, where runtimes differ by rounding: declare a larger limit"


@dataclass(frozen=True)
class CandidateFile:
    """A file to validate.

    Attributes:
        name: for the report: the file's, with as many folders as tell files of one name apart.
        path: of the file.
        format: of the file.
        known: what its conversion found; None for a file that was not converted here.
        profile: hardware or runtime that is emulated for it; None for the default.
    """

    name: str
    path: Path
    format: Format
    known: FileNotes | None
    profile: Profile | None = None

    def on(self, profiles: Sequence[Profile], gpu: bool) -> "list[CandidateFile]":
        """The file once for each runtime that it is judged for.

        Args:
            profiles: the runtimes; none for the default.
            gpu: whether it runs on a GPU, which is ONNX Runtime's CUDA provider itself.
        """
        if not (self.format.emulated and profiles):
            return [self]
        found = [
            replace(self, name=f"{self.name} ({profile})", profile=profile) for profile in profiles
        ]
        if gpu:
            others = [each for each in found if each.profile and each.profile.name != CUDA]
            return [self, *others]
        return found if len(found) > 1 else [replace(self, profile=profiles[0])]


def candidate_files(candidates: Any) -> tuple[CandidateFile, ...]:
    """The files to validate, in the order given.

    Args:
        candidates: a path, an `Artifact`, or a list of them.

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
    for path in paths:
        check_no_pointer(path)
    names = _names(resolved)
    return tuple(
        CandidateFile(
            names[whole],
            path,
            format_of(path),
            item.known if isinstance(item, Artifact) else None,
        )
        for item, path, whole in zip(items, paths, resolved, strict=True)
    )


def _names(paths: list[Path]) -> dict[Path, str]:
    """A name for each file, with as many folders as tell files of the same name apart."""
    depth = dict.fromkeys(paths, 1)
    while True:
        names = {path: "/".join(path.parts[-depth[path] :]) for path in paths}
        counts = Counter(names.values())
        alike = [path for path, name in names.items() if counts[name] > 1]
        if not alike:
            return names
        for path in alike:
            depth[path] += 1


def _candidate_path(candidate: Any) -> Path:
    path = candidate.path if isinstance(candidate, Artifact) else candidate
    if not isinstance(path, str | Path):
        raise InputError(
            f"expected a candidate to be a path or an Artifact, received {type(path).__name__}."
        )
    path = Path(path)
    check_name(path, "Rename it.")
    format_of(path)
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


# Bytes of the inputs and outputs that are kept of the first samples.
_KEPT_BYTES = 2**26


def _first_of(
    inputs: Batch, expected: Batch, batch: SampleBatch
) -> tuple[Batch, Batch, np.ndarray]:
    """Copies of as many first samples as memory allows, at least one, and their keys."""
    size = sum(array.nbytes for array in (*inputs.values(), *expected.values()))
    rows = max(1, min(len(batch), len(batch) * _KEPT_BYTES // max(size, 1)))
    kept = [
        {name: np.array(array[:rows] if array.ndim else array) for name, array in each.items()}
        for each in (inputs, expected)
    ]
    return kept[0], kept[1], batch.keys[:rows]


class Trial:
    """One candidate: its runner, its comparison, and what stopped it, if anything did."""

    def __init__(
        self,
        file: CandidateFile,
        source: AnySource,
        layout: Layout,
        plan: Plan,
        gpu: bool,
        split: Split | None,
        stack: ExitStack,
    ) -> None:
        """Opens the file.

        Args:
            file: the candidate.
            source: the reference.
            layout: of the samples.
            plan: what to measure.
            gpu: run the file on a GPU.
            split: what the stages of all files share, if they are measured.
            stack: holds the runner, and closes it.
        """
        self._file, self._source, self._gpu, self._layout = file, source, gpu, layout
        self._stages: DriftStages | None = None
        self._latency: Latency | None = None
        self._latencies: tuple[Latency, ...] = ()
        self._explainer: Explainer | None = None
        self._plan = plan
        self._first: tuple[Batch, Batch, np.ndarray] | None = None
        self._error: str | None = None
        self._comparison: Comparison | None = None
        self._info = RunnerInfo("none", "none", None)
        self._known = file.known or FileNotes()
        self._notes = self._known.notes
        self._sha256, self._size_bytes = file_sha256(file.path), file.path.stat().st_size
        with self._surviving():
            opened, fallen_back = opened_where_possible(
                lambda on_gpu: file.format.open_runner(
                    file.path, on_gpu, file.profile, source.origin.signature
                ),
                gpu,
                plan.device,
            )
            runner = stack.enter_context(opened)
            self._info = runner.info
            inputs = match(source.inputs, runner.inputs, file.name, "input")
            self._input_names = inputs.names
            self._output_names = match(source.outputs, runner.outputs, file.name).names
            its_own = layout.renamed(self._input_names, self._output_names)
            self._first_call = partial(its_own.first_call, runner.inputs)
            self._runner: Runner = laid_out(runner, its_own)
            known = self._known.notes or self._runner.notes
            self._notes = (*fallen_back, *inputs.notes, *known)
            self._comparison = self._compared()
            if split is not None:
                entry = source.origin.signature
                self._stages = DriftStages(split, file.path, file.format, self._info, entry)
            if plan.explain:
                folder = plan.explain if isinstance(plan.explain, Path) else None
                self._explainer = Explainer(
                    self._unexplained
                    or (lambda: file.format.open_seams(file.path, source, file.profile, stack)),
                    inputs.names,
                    self._output_names,
                    folder and folder / file.name.replace("/", "_"),
                )

    def _compared(self) -> Comparison:
        """A comparison of the file's outputs with the reference's."""
        source, layout, plan = self._source, self._layout, self._plan
        return Comparison(
            self._file.name,
            layout.outputs(source.outputs),
            self._runner.outputs,
            tasks=plan.tasks,
            hints=source.hints,
            metrics=plan.metrics,
            steps=bool(layout.states),
        )

    @property
    def _unexplained(self) -> str:
        """Why no layers can be told; "" if they can."""
        if self._info.fp16 is None:
            return "the file computes in FP32: no layer rounds to FP16"
        if self._layout != PLAIN:
            return (
                "layers are explained for models without states and with samples on the first axis"
            )
        return ""

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A failure inside costs this candidate, not the run; that of the machine ends the run."""
        try:
            yield
        except MachineError as error:
            raise machine_failure(error, self._gpu) from error
        except RunnerError as error:
            self._error = str(error)

    def update(self, batch: SampleBatch, expected: Batch) -> None:
        """Runs and compares one batch, unless an earlier one failed.

        Args:
            batch: the samples.
            expected: the reference's outputs on them.
        """
        if self._error is not None or self._comparison is None:
            return
        with self._surviving():
            fed = {self._input_names[name]: array for name, array in batch.inputs.items()}
            received = self._runner.run(fed)
            if self._first is None and self._info.fp16 == "emulated":
                self._first = _first_of(fed, expected, batch)
            self._comparison.update(expected, received, batch.labels, batch.keys)
            named = {name: received[self._output_names[name]] for name in expected}
            if self._stages is not None:
                self._stages.update(batch, expected, named)
            if self._explainer is not None:
                self._explainer.update(batch.inputs, expected, named)

    def start_over(self, label_kinds: Mapping[str, str] | None) -> None:
        """Forgets what was measured; see `Bench.start_over`."""
        if self._comparison is not None:
            self._comparison.start_over(label_kinds)
        if self._stages is not None:
            self._stages.start_over()

    @property
    def label_kinds(self) -> Mapping[str, str]:
        """How labels are read, by output, once there were any."""
        return self._comparison.label_kinds if self._comparison is not None else {}

    def measure_latency(self, inputs: Batch, batch_sizes: Sequence[int] = ()) -> None:
        """Times calls of the file, as far as it could be run.

        Args:
            inputs: arrays of the data, by the reference's names.
            batch_sizes: numbers of samples to time calls of, beside a single call.
        """
        if self._error is not None:
            return
        fed = {self._input_names[name]: array for name, array in inputs.items()}
        self._latency = self._timed(*self._first_call(fed))
        if self._latency is None:
            return
        found = {self._latency.batch: self._latency}
        for size in batch_sizes:
            timed = found.get(size) or self._timed(*self._first_call(fed, size))
            if timed is None:
                break
            found.setdefault(timed.batch, timed)
            if timed.batch != size:  # the file fixes its rows
                note = f"not timed with other batch sizes: a call takes {timed.batch:,} at once"
                self._notes = (*self._notes, note)
                break
        self._latencies = tuple(found[size] for size in batch_sizes if size in found)

    def _timed(self, call: Batch, rows: int) -> Latency | None:
        """The latency of a call; a note where it cannot be measured."""
        signature = self._source.origin.signature
        try:
            timed = self._file.format.time_calls(self._file.path, call, rows, self._info, signature)
        except RunnerError as error:
            self._notes = (*self._notes, f"latency not measured: {error}")
            return None
        return latency_of(timed)

    def evidence(self) -> CandidateEvidence:
        """What was measured, explained if the plan asks for it."""
        explained = self._explainer if self._error is None else None
        compared = self._comparison if self._error is None else None
        outputs = compared.outputs() if compared else ()
        remedy, flags = self._remedy(outputs)
        classes = [one.name for one in outputs if one.task.kind is Kind.CLASSIFICATION]
        return CandidateEvidence(
            name=self._file.name,
            format=self._file.format.name,
            runner=self._info,
            outputs=outputs,
            labels=compared.labels() if compared else (),
            path=str(self._file.path),
            sha256=self._sha256,
            size_bytes=self._size_bytes,
            notes=(*self._notes, *(compared.notes if compared else ())),
            overflows=self._known.overflows,
            float32=self._known.float32,
            remedy=remedy,
            remedy_flags=flags,
            error=self._error,
            latency=self._latency,
            latencies=self._latencies,
            stages=self._stages.stages() if self._stages and self._error is None else (),
            explanation=explained.explanation(classes) if explained else None,
        )

    def _fails(self, outputs: Sequence[OutputDrift]) -> bool:
        return judge(outputs, budget=self._plan.budget).verdict is Verdict.FAIL

    def _passes(
        self, profile: Profile | None, inputs: Batch, expected: Batch, keys: np.ndarray
    ) -> bool:
        """Whether samples fail on the runtime that was emulated, and not on this one."""
        signature = self._source.origin.signature
        verdicts = []
        for tried in (self._file.profile, profile):
            compared = self._compared()
            runner = self._file.format.open_runner(self._file.path, False, tried, signature)
            names = (self._input_names, self._output_names)
            with laid_out(runner, self._layout.renamed(*names)) as opened:
                received = opened.run(inputs)
            compared.update(expected, received, None, keys)
            verdicts.append(self._fails(compared.outputs()))
        return verdicts == [True, False]

    def _remedy(self, outputs: Sequence[OutputDrift]) -> tuple[str, str | None]:
        """A way to convert that a drift over budget calls for, and its options."""
        if self._error is None and self._first is not None and self._fails(outputs):
            for profile, way in self._file.format.mended(self._file.path, self._file.profile):
                if self._passes(profile, *self._first):
                    first = len(self._first[2])
                    return f"{way}: emulated so, the first {first} samples pass", None
        if self._info.fp16 is None and self._error is None:
            return IN_FP32, None
        if self._error is not None or self._known.remedy:
            return self._known.remedy, self._known.remedy_flags
        return self._file.format.remedy(self._file.path)
