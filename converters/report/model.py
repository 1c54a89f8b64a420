"""The drift report as data, and a converted file with its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Self

from tfmp.converters.drift import DriftBudget, LabelDrift, OutputDrift, with_metrics
from tfmp.converters.drift.verdict import Check, Verdict, judge, overall
from tfmp.converters.report.explanation import Explanation
from tfmp.converters.runners import RunnerInfo
from tfmp.converters.samples import DataReport
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import as_path, check_folder
from tfmp.shared.atomic_file import replacing
from tfmp.shared.report_files import Count, JsonObject, Sha256

SCHEMA = "tfmp.drift/2"

# That of reports whose evidence was sums, which this version renders and does not judge again.
FIRST_SCHEMA = "tfmp.drift/1"


@dataclass(frozen=True)
class Latency:
    """The time of one call.

    Attributes:
        median_ms: median time in milliseconds.
        low_ms: time in milliseconds that 5 of 100 calls were faster than.
        high_ms: time in milliseconds that 5 of 100 calls were slower than.
        calls: number of calls that were timed.
        batch: number of samples that a call takes.
        runner: the runner that executed it, without emulation, such as "onnxruntime".
        device: the device that it ran on.
        memory_bytes: highest rise of the memory of the process that ran it alone, from before it
            loaded the model; None if it was not measured, as on a GPU.
        policy: Keras's dtype policy; "" for a model that ran as it is.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    calls: Count
    batch: Count
    runner: str
    device: str
    memory_bytes: Count | None = None
    policy: str = ""


@dataclass(frozen=True)
class ModelReport:
    """A model that took part in a comparison.

    Attributes:
        name: name of the model for people.
        format: format of the model, such as "keras" or "onnx".
        runner: the runner that executed it, its device, and its kind of FP16.
        path: path of the file; None for a live model.
        sha256: hash of the file.
        size_bytes: size of the file.
        notes: facts that a reader should know, such as outputs matched by order.
        latency: time of one call; None if it was not measured.
        latencies: time and memory of calls with each batch size, of a Keras model in float32 and in
            mixed precision; empty if they were not asked for.
    """

    name: str
    format: str
    runner: RunnerInfo | None = None
    path: str | None = None
    sha256: Sha256 | None = None
    size_bytes: Count | None = None
    notes: tuple[str, ...] = ()
    latency: Latency | None = None
    latencies: tuple[Latency, ...] = ()


@dataclass(frozen=True)
class ReferenceReport(ModelReport):
    """The model that candidates were measured against.

    Attributes:
        noise_floor: distance of this float32 model from itself in float64, by output: drift below
            it is not FP16's doing. Empty if it was not measured.
    """

    noise_floor: tuple[OutputDrift, ...] = ()


@dataclass(frozen=True)
class FileNotes:
    """What is known of a file from its conversion, which the file itself does not tell.

    Attributes:
        notes: what a user should know: layers kept in FP32, constants that lost precision.
        overflows: layers of an FP16 file with values past FP16, if the conversion looked for them.
        remedy: a way to convert that a drift over budget calls for, if there is another one.
        remedy_flags: the options of `tfmp-convert` that it takes; None if it is none of its own.
        float32: whether nothing in it computes in 16 bits, although that was asked for.
    """

    notes: tuple[str, ...] = ()
    overflows: tuple[str, ...] = ()
    remedy: str = ""
    remedy_flags: str | None = None
    float32: bool = False


@dataclass(frozen=True)
class Stage:
    """One step of the way from the reference to a candidate, and the drift it added.

    Attributes:
        name: "export" (reference to FP32 file), "weights" (to FP16 weights) or "arithmetic" (to
            FP16 arithmetic).
        outputs: distance of the outputs after the step from the outputs before it.
        error: reason why it could not be measured; None if it was.
    """

    name: str
    outputs: tuple[OutputDrift, ...]
    error: str | None = None


@dataclass(frozen=True)
class CandidateEvidence(FileNotes, ModelReport):
    """One candidate file on one runner, measured and not judged yet.

    Attributes:
        outputs: drift of every output.
        labels: answers against labels, one entry for each labelled output.
        error: reason why it could not be run or compared; None if it was.
        stages: drift that each step from the reference added; empty if it was not asked for.
        explanation: layers and samples that the drift comes from; None if it was not asked for.
        synthetic_sizes: sizes of the samples that were made for it, such as "tokens=4,6000"; "" if
            it ran on the data.
    """

    runner: RunnerInfo = field()  # always known
    outputs: tuple[OutputDrift, ...] = ()
    labels: tuple[LabelDrift, ...] = ()
    error: str | None = None
    stages: tuple[Stage, ...] = ()
    explanation: Explanation | None = None
    synthetic_sizes: str = ""

    def judged(
        self, data: DataReport, budget: DriftBudget, original: Sha256 | None = None
    ) -> "CandidateReport":
        """The evidence with the verdict that follows from it; see `verdict.judge`."""
        labels = tuple(map(with_metrics, self.labels))
        judgement = judge(
            self.outputs,
            labels,
            budget,
            synthetic=data.synthetic or bool(self.synthetic_sizes),
            nonfinite_inputs=sum(data.nonfinite.values()),
            fp16=self.runner.fp16,
            overflows=self.overflows,
            unchanged=self.runner.fp16 is None and original is not None and self.sha256 == original,
            error=self.error,
        )
        over = judgement.verdict is Verdict.FAIL and self.error is None
        remedy = [self.remedy] if over and self.remedy else []
        return CandidateReport(
            **{
                **vars(self),
                "labels": labels,
                "verdict": judgement.verdict,
                "reasons": (*judgement.reasons, *remedy),
                "checks": judgement.checks,
            }
        )


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured of one reference and its candidates.

    Attributes:
        reference: the FP32 original.
        candidates: the candidates in the order given.
        data: the samples.
        environment: versions and hardware, by name.
    """

    reference: ReferenceReport
    candidates: tuple[CandidateEvidence, ...]
    data: DataReport
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CandidateReport(CandidateEvidence):
    """One candidate file on one runner: its drift, and whether it may ship.

    Attributes:
        verdict: PASS, FAIL or INCONCLUSIVE.
        reasons: the findings that decided the verdict.
        checks: every finding, with its bound and limit.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class DriftReport(Evidence):
    """Evidence and verdict on all candidates of one reference.

    Attributes:
        verdict: FAIL if any candidate is FAIL, else INCONCLUSIVE if any is, else PASS. A candidate
            on samples of made sizes can only make it FAIL.
        budget: the budget as it was declared before the run.
        schema: schema of the JSON document.
    """

    candidates: tuple[CandidateReport, ...]
    verdict: Verdict
    budget: DriftBudget
    schema: str = SCHEMA

    @classmethod
    def judged(cls, evidence: Evidence, budget: DriftBudget) -> Self:
        """The verdict that follows from evidence under a budget."""
        original = evidence.reference.sha256
        candidates = [one.judged(evidence.data, budget, original) for one in evidence.candidates]
        return cls(
            verdict=overall(
                [
                    candidate.verdict
                    for candidate in candidates
                    if candidate.verdict is Verdict.FAIL or not candidate.synthetic_sizes
                ]
            ),
            reference=evidence.reference,
            candidates=tuple(candidates),
            data=evidence.data,
            budget=budget,
            environment=dict(evidence.environment),
        )

    @property
    def models(self) -> tuple[ModelReport, ...]:
        """The reference and the candidates."""
        return (self.reference, *self.candidates)

    def judged_by(self, budget: DriftBudget) -> "DriftReport":
        """The same evidence under another budget.

        Raises:
            InputError: an earlier version wrote the report, whose evidence says less.
        """
        self.check_judgeable()
        return DriftReport.judged(self, budget)

    def check_judgeable(self) -> None:
        """Raises `InputError` for a report of an earlier version, whose evidence is less."""
        if self.schema == FIRST_SCHEMA:
            raise InputError(
                f"the report was written by an earlier version (schema {FIRST_SCHEMA}): it can be "
                "shown, but not judged again or merged. Validate the files again."
            )

    def to_dict(self) -> JsonObject:
        """The JSON document (schema tfmp.drift/2): non-finite numbers are strings."""
        from tfmp.converters.report.jsonio import encode

        return encode(self)

    @classmethod
    def from_dict(cls, document: JsonObject) -> "DriftReport":
        """Reads a document of `to_dict`; unknown keys are left aside.

        Raises:
            InputError: the schema is another one, or a key is missing or has the wrong type.
        """
        from tfmp.converters.report.jsonio import decode

        return decode(cls, document)

    def __repr__(self) -> str:
        """What the commands print on a wide terminal."""
        from rich.console import Console

        from tfmp.converters.report.contents import print_report

        console = Console(width=120, color_system=None, force_jupyter=False)
        with console.capture() as captured:
            print_report(self, console)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        from tfmp.converters.report.contents import to_cell

        return to_cell(self)

    def save(self, path: str | Path) -> Path:
        """Writes the report in the form that the suffix names.

        .json, .html, .md (also the section of a model card), or .xml (JUnit).

        Raises:
            InputError: the suffix is another one, or the folder cannot be written.
        """
        path = check_path(path)
        text = render(self, path.suffix)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return path


@dataclass(frozen=True)
class Artifact:
    """A converted model on disk.

    Attributes:
        path: of the file.
        format: "onnx" or "tflite".
        precision: "fp16", "bf16", "mixed" or "fp32".
        size_bytes: of the file.
        sha256: of the file.
        known: what the conversion found.
        report: drift against the original, where `data` was given.
    """

    path: Path
    format: str
    precision: str
    size_bytes: int
    sha256: str
    known: FileNotes = field(default=FileNotes(), repr=False)
    report: DriftReport | None = field(default=None, compare=False, repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        return self.known.notes


_RENDERERS = {
    ".json": "tfmp.converters.report.jsonio:to_json",
    ".html": "tfmp.converters.report.contents:to_html",
    ".md": "tfmp.converters.report.contents:to_markdown",
    ".xml": "tfmp.converters.report.junit:to_junit",
}
SUFFIXES = tuple(_RENDERERS)


def check_path(path: str | Path, suffixes: Sequence[str] = SUFFIXES) -> Path:
    """The path of a report, checked before the run and not after it.

    Raises:
        InputError: it is no path, the suffix is unknown, or the folder cannot be written.
    """
    path = as_path("report", path)
    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"report {str(path)!r} has suffix {path.suffix!r}; expected one of "
            f"{', '.join(suffixes)}. Change the file's name."
        )
    check_folder(path.parent)
    return path


def render(report: DriftReport, suffix: str) -> str:
    """The text of a report file in the form of one of `SUFFIXES`."""
    # Imported on use: the HTML needs Jinja, the others do not.
    module, _, name = _RENDERERS[suffix.lower()].partition(":")
    text: str = getattr(import_module(module), name)(report)
    return text
