"""Reports on a terminal."""

from dataclasses import replace

from rich.console import Console
from rich.text import Text

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.contents import candidate_section, conclusion, latency_table
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import headline
from tfmp.shared.html_page import SIGNS, printable
from tfmp.shared.reporting import print_section, print_table

_STYLES: dict[str, str] = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
}

# Columns that a narrow terminal leaves out, in this order; every file rendering has them.
_DISPENSABLE = ("Size", "Latency", "Drift", "Runtime", "5th to 95th percentile", "Samples/s")


def print_report(report: DriftReport, console: Console, verbose: bool = False) -> None:
    """Prints the table of candidates, and under it what to do about those that do not pass.

    Args:
        report: of a comparison.
        console: the terminal.
        verbose: also print every reason, the meaning of outputs and notes.
    """
    print_section(conclusion(report, short=not verbose), console, _DISPENSABLE, titled=False)
    for candidate in report.candidates if verbose else ():
        print_section(replace(candidate_section(report, candidate), tables=()), console)
    print_table(latency_table(report), console, _DISPENSABLE)
    print_verdict(report, console)


def print_verdict(report: DriftReport, console: Console) -> None:
    """Prints the verdict in a line."""
    sign = Text(f"{SIGNS[report.verdict]} {report.verdict}", style=_STYLES[report.verdict])
    console.print(sign.append(f"  {printable(headline(report))}", "none"))
