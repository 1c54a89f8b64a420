"""The drift report as data. JSON, HTML, Markdown, JUnit and the terminal are renderings of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from tfmp.converters.drift import (
    Check,
    DriftBudget,
    LabelDrift,
    OutputDrift,
    Verdict,
    judge,
    overall,
)
from tfmp.converters.report.explanation import Explanation
from tfmp.converters.runners import RunnerInfo
from tfmp.converters.samples import DataReport
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_folder
from tfmp.shared.atomic_file import replacing
from tfmp.shared.report_files import JsonObject

SCHEMA = "tfmp.drift/1"


@dataclass(frozen=True)
class Latency:
    """How long one call takes.

    Attributes:
        median_ms: in milliseconds.
        low_ms: 5 of 100 calls were faster.
        high_ms: 5 of 100 calls were slower.
        calls: that were timed.
        batch: samples that a call takes.
        runner: what executed it, without emulation, such as "onnxruntime".
        device: where.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    calls: int
    batch: int
    runner: str
    device: str


@dataclass(frozen=True)
class ReferenceReport:
    """The model that candidates were measured against.

    Attributes:
        name: shown to people.
        format: such as "keras".
        path: of the file; None for a live model.
        sha256: of the file.
        size_bytes: of the file.
        runner: what executed it.
        notes: what a reader should know.
        noise_floor: distance of this float32 model from itself in float64, by output: drift below
            it is not FP16's doing. Empty if it was not measured.
        latency: of one call; None if it was not measured.
    """

    name: str
    format: str
    path: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    runner: RunnerInfo | None = None
    notes: tuple[str, ...] = ()
    noise_floor: tuple[OutputDrift, ...] = ()
    latency: Latency | None = None


@dataclass(frozen=True)
class Stage:
    """One step of the way from the reference to a candidate, and the drift it added.

    Attributes:
        name: "export" (reference to FP32 file), "weights" (to FP16 weights) or "arithmetic" (to
            FP16 arithmetic).
        outputs: distance of the outputs after the step from those before it.
        error: why it could not be measured; None if it was.
    """

    name: str
    outputs: tuple[OutputDrift, ...]
    error: str | None = None


@dataclass(frozen=True)
class CandidateEvidence:
    """One candidate file on one runner, measured and not judged yet.

    Attributes:
        name: shown to people.
        format: "onnx" or "tflite".
        path: of the file.
        sha256: of the file.
        size_bytes: of the file.
        runner: what executed it, where, and how it computed FP16.
        outputs: drift of every output.
        labels: answers against labels, one entry a labelled output.
        notes: what a reader should know, such as outputs matched by order.
        overflows: layers of an FP16 file with values past FP16, where the conversion looked.
        error: why it could not be run or compared; None if it was.
        stages: where the drift comes from, step by step; empty if it was not asked for.
        latency: of one call of the file; None if it was not measured.
        explanation: which layers and samples the drift is from; None if it was not asked for.
    """

    name: str
    format: str
    runner: RunnerInfo
    outputs: tuple[OutputDrift, ...] = ()
    labels: tuple[LabelDrift, ...] = ()
    path: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    notes: tuple[str, ...] = ()
    overflows: tuple[str, ...] = ()
    error: str | None = None
    stages: tuple[Stage, ...] = ()
    latency: Latency | None = None
    explanation: Explanation | None = None

    def judged(self, data: DataReport, budget: DriftBudget) -> "CandidateReport":
        """The evidence with the verdict that follows from it; see `verdict.judge`."""
        judgement = judge(
            self.outputs,
            self.labels,
            budget,
            synthetic=data.synthetic,
            nonfinite_inputs=data.nonfinite_values,
            fp16=self.runner.fp16,
            overflows=self.overflows,
            error=self.error,
        )
        return CandidateReport(
            **vars(self),
            verdict=judgement.verdict,
            reasons=judgement.reasons,
            checks=judgement.checks,
        )


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured of one reference and its candidates.

    Attributes:
        reference: the FP32 original.
        candidates: in the order given.
        data: the samples.
        environment: versions and hardware, by name.
    """

    reference: ReferenceReport
    candidates: tuple[CandidateEvidence, ...]
    data: DataReport
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CandidateReport:
    """One candidate file on one runner: what it drifted by, and whether it may ship.

    Attributes:
        name: shown to people.
        format: "onnx" or "tflite".
        path: of the file.
        sha256: of the file.
        size_bytes: of the file.
        runner: what executed it, where, and how it computed FP16.
        outputs: drift of every output.
        labels: answers against labels, one entry a labelled output.
        verdict: PASS, FAIL or INCONCLUSIVE.
        reasons: the findings that decided it.
        checks: every finding, with its bound and limit.
        notes: what a reader should know, such as outputs matched by order.
        overflows: layers of an FP16 file with values past FP16, where the conversion looked.
        error: why it could not be run or compared; None if it was.
        stages: where the drift comes from, step by step; empty if it was not asked for.
        latency: of one call of the file; None if it was not measured.
        explanation: which layers and samples the drift is from; None if it was not asked for.
    """

    name: str
    format: str
    path: str | None
    sha256: str | None
    size_bytes: int | None
    runner: RunnerInfo
    outputs: tuple[OutputDrift, ...]
    labels: tuple[LabelDrift, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    overflows: tuple[str, ...] = ()
    error: str | None = None
    stages: tuple[Stage, ...] = ()
    latency: Latency | None = None
    explanation: Explanation | None = None

    @property
    def evidence(self) -> CandidateEvidence:
        """The measurements without the verdict."""
        names = [item.name for item in fields(CandidateEvidence)]
        return CandidateEvidence(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class DriftReport:
    """Evidence and verdict on all candidates of one reference.

    Attributes:
        verdict: FAIL if any candidate failed, else INCONCLUSIVE if any was, else PASS.
        reference: the FP32 original.
        candidates: in the order given.
        data: the samples.
        budget: as declared before the run.
        environment: versions and hardware, by name.
        schema: of the JSON document.
    """

    verdict: Verdict
    reference: ReferenceReport
    candidates: tuple[CandidateReport, ...]
    data: DataReport
    budget: DriftBudget
    environment: Mapping[str, str] = field(default_factory=dict)
    schema: str = SCHEMA

    @classmethod
    def judged(cls, evidence: Evidence, budget: DriftBudget) -> Self:
        """The verdict that follows from evidence under a budget."""
        candidates = [candidate.judged(evidence.data, budget) for candidate in evidence.candidates]
        return cls(
            verdict=overall([candidate.verdict for candidate in candidates]),
            reference=evidence.reference,
            candidates=tuple(candidates),
            data=evidence.data,
            budget=budget,
            environment=dict(evidence.environment),
        )

    @property
    def evidence(self) -> Evidence:
        """The measurements without the verdicts."""
        candidates = tuple(candidate.evidence for candidate in self.candidates)
        return Evidence(self.reference, candidates, self.data, self.environment)

    def judged_by(self, budget: DriftBudget) -> "DriftReport":
        """The same evidence under another budget."""
        return DriftReport.judged(self.evidence, budget)

    def to_dict(self) -> JsonObject:
        """The JSON document (schema tfmp.drift/1): non-finite numbers are strings."""
        from tfmp.converters.report.jsonio import encode

        return encode(self)

    @classmethod
    def from_dict(cls, document: JsonObject) -> "DriftReport":
        """Reads what `to_dict` gave; keys it does not know are left aside.

        Raises:
            InputError: another schema, or a key that is missing or has the wrong type.
        """
        from tfmp.converters.report.jsonio import decode

        return decode(cls, document)

    def save(self, path: str | Path) -> Path:
        """Writes the report in the form its suffix names: .json, .html, .md or .xml (JUnit).

        Raises:
            InputError: another suffix, or a folder that is missing or cannot be written to.
        """
        path = check_path(path)
        text = render(self, path.suffix)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return path


SUFFIXES = (".json", ".html", ".md", ".xml")


def check_path(path: str | Path) -> Path:
    """A path that a report can be saved at, told before the run and not after it.

    Raises:
        InputError: an unknown suffix, or a folder that is missing or cannot be written to.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"report {str(path)!r} has suffix {path.suffix!r}; expected one of "
            f"{', '.join(SUFFIXES)} (.xml is JUnit). Change the file's name."
        )
    check_folder(path.parent)
    return path


def render(report: DriftReport, suffix: str) -> str:
    """The text of a report file in the form of one of `SUFFIXES`."""
    # Imported on use: the HTML needs Jinja, the others do not.
    suffix = suffix.lower()
    if suffix == ".html":
        from tfmp.converters.report.html import to_html as rendering
    elif suffix == ".md":
        from tfmp.converters.report.markdown import to_markdown as rendering
    elif suffix == ".xml":
        from tfmp.converters.report.junit import to_junit as rendering
    else:
        from tfmp.converters.report.jsonio import to_json as rendering
    return rendering(report)
