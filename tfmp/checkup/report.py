"""DoctorReport: the findings of `doctor`, for people and for programs."""

import textwrap
from dataclasses import dataclass

from tfmp.machine import Machine
from tfmp.shared.findings import Finding
from tfmp.shared.html_page import SIGNS
from tfmp.shared.report_files import JsonObject, plain_fields
from tfmp.shared.reporting import Report, Section, Table
from tfmp.shared.wording import counted

# Columns of the printed table, and the least width of its text if names of checks are long.
_WIDTH, _LEAST_TEXT = 100, 40


@dataclass(frozen=True)
class DoctorReport(Report):
    """All findings of `doctor`; it prints as a count and a table with a line for each fix.

    Attributes:
        diagnoses: the findings, in the order of the checks.
        machine: the facts that the findings rest on.
    """

    diagnoses: tuple[Finding, ...]
    machine: Machine

    @property
    def healthy(self) -> bool:
        """Whether no finding is a problem; warnings and notes are allowed."""
        return all(finding.status != "problem" for finding in self.diagnoses)

    @property
    def headline(self) -> str:
        """The problems and the warnings, counted and named."""
        found = []
        for status in ("problem", "warning"):
            if names := [each.check for each in self.diagnoses if each.status == status]:
                found.append(f"{counted(len(names), status)} ({', '.join(names)})")
        return ", ".join(["no problem"] * self.healthy + found)

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {"healthy": self.healthy, **plain_fields(self)}

    @property
    def heading(self) -> str:
        """Of the page."""
        return "tfmp doctor"

    @property
    def signal(self) -> tuple[str, str]:
        """PASS without a problem."""
        verdict = "PASS" if self.healthy else "FAIL"
        return verdict, f"{SIGNS[verdict]} {self.headline}"

    def sections(self, on_page: bool = True) -> list[Section]:
        """A row for each finding."""
        heading = ("status", "check", "found", "fix")
        rows = tuple((d.status, d.check, d.message, d.fix) for d in self.diagnoses)
        return [Section("Findings", tables=(Table(heading, rows, words=heading),))]

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

        found = [f"This machine has {self.headline}.", ""]
        found += [*lines(*header), *lines("-" * widths[0], "-" * widths[1], "-" * len(header[2]))]
        for finding in self.diagnoses:
            found += lines(finding.status, finding.check, finding.message)
            if finding.fix:
                found += lines("", "", finding.fix, indent="  ")
        return "\n".join(found)
