"""DoctorReport: what `doctor` found, for people and for programs."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from tfmp.machine import Machine

# Columns of the printed table, and what is left to the text where names of checks are long.
_WIDTH, _LEAST_TEXT = 100, 40


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
        heads = [header, *((d.status, d.check) for d in self.diagnoses)]
        widths = [max(len(head[i]) for head in heads) for i in range(2)]
        room = max(_LEAST_TEXT, _WIDTH - sum(widths) - 4)

        def lines(status: str, check: str, text: str, indent: str = "") -> list[str]:
            parts = textwrap.wrap(
                text,
                room,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
            first = f"{status:{widths[0]}}  {check:{widths[1]}}  {parts[0]}"
            return [first, *(" " * (sum(widths) + 4) + part for part in parts[1:])]

        found = [*lines(*header), *lines("-" * widths[0], "-" * widths[1], "-" * len(header[2]))]
        for diagnosis in self.diagnoses:
            found += lines(diagnosis.status, diagnosis.check, diagnosis.message)
            if diagnosis.mend:
                found += lines("", "", diagnosis.mend, indent="  ")
        return "\n".join(found)
