"""What a conversion leaves on disk."""

from dataclasses import dataclass, field
from pathlib import Path

from tfmp.converters.report.model import DriftReport


@dataclass(frozen=True)
class FileNotes:
    """What is known of a file from its conversion, which the file itself does not tell.

    Attributes:
        notes: what a user should know: layers kept in FP32, constants that lost precision.
        overflows: layers with values past FP16 on the samples, in words.
        remedy: another way to convert, for a drift over budget; "" if there is no other one.
    """

    notes: tuple[str, ...] = ()
    overflows: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Artifact:
    """A converted model on disk.

    Attributes:
        path: of the file.
        format: "onnx" or "tflite".
        precision: "fp16", "mixed" or "fp32".
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
    known: FileNotes = FileNotes()
    report: DriftReport | None = field(default=None, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        return self.known.notes
