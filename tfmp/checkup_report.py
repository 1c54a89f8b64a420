"""DoctorReport: what `doctor` found, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any

from tfmp.machine import Machine


@dataclass(frozen=True)
class Diagnosis:
    """What one check says.

    Attributes:
        check: name of the check.
        status: "ok"; "note" for what changes results and may be wanted; "warning" for what costs
            speed or accuracy; "problem" for what breaks things.
        message: what is so.
        mend: what to do; empty if there is nothing to.
    """

    check: str
    status: str
    message: str
    mend: str = ""


@dataclass(frozen=True)
class DoctorReport:
    """Everything that `doctor` found; printed, a table with a line for each mend.

    Attributes:
        diagnoses: in the order of the checks.
        machine: the facts that they rest on.
    """

    diagnoses: tuple[Diagnosis, ...]
    machine: Machine

    @property
    def healthy(self) -> bool:
        """Whether there is no problem; warnings and notes are none."""
        return all(diagnosis.status != "problem" for diagnosis in self.diagnoses)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "healthy": self.healthy,
            "diagnoses": [asdict(diagnosis) for diagnosis in self.diagnoses],
            "machine": self.machine.to_dict(),
        }

    def __str__(self) -> str:
        header = ("status", "check", "found")
        cells = [(d.status, d.check, d.message) for d in self.diagnoses]
        widths = [max(len(row[i]) for row in (header, *cells)) for i in range(2)]

        def line(status: str, check: str, text: str) -> str:
            return f"{status:{widths[0]}}  {check:{widths[1]}}  {text}"

        lines = [line(*header), line("-" * widths[0], "-" * widths[1], "-" * len(header[2]))]
        for diagnosis, row in zip(self.diagnoses, cells, strict=True):
            lines.append(line(*row))
            if diagnosis.mend:
                lines.append(line("", "", f"  {diagnosis.mend}"))
        return "\n".join(lines)
