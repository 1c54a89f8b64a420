"""What a conversion leaves on disk, and the choices that `convert` and `validate` share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfmp.converters.report.model import DriftReport
from tfmp.converters.shared.errors import InputError

SUFFIXES = {"onnx": ".onnx", "tflite": ".tflite"}
PRECISIONS = ("fp16", "mixed", "fp32")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Findings:
    """What a conversion found that the file itself does not tell.

    Attributes:
        notes: what a user should know: layers kept in FP32, constants that lost precision.
        overflows: layers with values past FP16 on the samples, in words.
    """

    notes: tuple[str, ...] = ()
    overflows: tuple[str, ...] = ()


NOTHING_FOUND = Findings()


@dataclass(frozen=True)
class Artifact:
    """A converted model on disk.

    Attributes:
        path: of the file.
        format: "onnx" or "tflite".
        precision: "fp16", "mixed" or "fp32".
        size_bytes: of the file.
        sha256: of the file.
        findings: what the conversion found.
        report: drift against the original, where `data` was given.
    """

    path: Path
    format: str
    precision: str
    size_bytes: int
    sha256: str
    findings: Findings = NOTHING_FOUND
    report: DriftReport | None = field(default=None, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        return self.findings.notes


def silent(_: str) -> None:
    """Progress that goes nowhere."""


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises `InputError` unless `value` is one of `choices`."""
    if value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}, received {value!r}.")
