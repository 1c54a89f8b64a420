"""DoctorReport: the findings of `doctor`, for people and for programs."""

import textwrap
from dataclasses import dataclass
from functools import partial

from tfmp.machine import Machine
from tfmp.shared.findings import Finding
from tfmp.shared.html_page import SIGNS
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

    SCHEMA = "tfmp.doctor/1"
    DERIVED = ("healthy",)

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
        rows: list[tuple[str, ...]] = []
        longest = max((len(each.check) for each in self.diagnoses), default=0)
        room = max(_LEAST_TEXT, _WIDTH - len("warning") - longest - 4)
        wrap = partial(textwrap.wrap, width=room, break_long_words=False, break_on_hyphens=False)
        for each in self.diagnoses:
            fix = wrap(each.fix, initial_indent="  ", subsequent_indent="  ")
            first, *rest = [*wrap(each.message), *fix]
            rows += [(each.status, each.check, first), *(("", "", line) for line in rest)]
        table = Table(("status", "check", "found"), tuple(rows))
        return f"This machine has {self.headline}.\n\n{table}"
