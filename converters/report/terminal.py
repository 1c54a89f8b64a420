"""Reports on a terminal."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.contents import latency_table, verdict_table
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import (
    asked_texts,
    data_notes,
    findings,
    headline,
    meaning_texts,
    printable,
    scope,
)
from tfmp.shared.html_page import SIGNS
from tfmp.shared.reporting import VERDICTS, Table
from tfmp.shared.wording import alike_once

_STYLES: dict[str, str] = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
}

# Columns that a narrow terminal leaves out, in this order; every file rendering has them.
_DISPENSABLE = ("Size", "Latency", "Drift", "Runtime")

# Wider than any table, to ask one how wide it would be.
_UNBOUNDED = 10_000


def print_report(report: DriftReport, console: Console, verbose: bool = False) -> None:
    """Prints the table of candidates, and under it what to do about those that do not pass.

    Args:
        report: of a comparison.
        console: the terminal.
        verbose: also print every reason, the meaning of outputs and notes.
    """
    print_table(verdict_table(report), console, _DISPENSABLE)
    for names, lines in findings(report):
        console.print(Text(names, style="bold"))
        for label, text in lines:
            _print_labelled(label, text, console)
    for candidate in report.candidates:
        _print_candidate(report, candidate, console, verbose)
    print_table(latency_table(report), console)
    for note in data_notes(report):
        console.print(Text(f"note: {printable(note)}", style="dim"))
    print_verdict(report, console)


def print_verdict(report: DriftReport, console: Console) -> None:
    """Prints the verdict in a line."""
    sign = f"{SIGNS[report.verdict]} {report.verdict}"
    console.print(Text(sign, style=_STYLES[report.verdict]).append(f"  {headline(report)}", "none"))


def print_table(table: Table, console: Console, dispensable: tuple[str, ...] = ()) -> None:
    """Prints a table with as many columns as leave the names in the first in one piece."""
    if not table.rows:
        return
    unbounded = console.options.update(width=_UNBOUNDED)
    for count in range(len(dispensable) + 1):
        drawn = _rich(table.without(*dispensable[:count]))
        if Measurement.get(console, unbounded, drawn).maximum <= console.width:
            break
    console.print(drawn)


def _rich(table: Table) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for name in table.heading:
        drawn.add_column(name, justify="left" if name in table.words else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(
            *(Text(printable(c), _STYLES[VERDICTS[c]] if c in VERDICTS else "") for c in row)
        )
    return drawn


def _print_labelled(label: str, text: str, console: Console) -> None:
    """A command stays in one piece, to be pasted; other text hangs beside its label."""
    if text.startswith("tfmp-convert "):
        console.print(Text(f"  {label:8}{text}"), soft_wrap=True)
        return
    grid = RichTable.grid()
    grid.add_column(width=10)
    grid.add_column(overflow="fold")
    grid.add_row(f"  {label}", Text(text))
    console.print(grid)


def _print_candidate(
    report: DriftReport, candidate: CandidateReport, console: Console, verbose: bool
) -> None:
    """What a run was asked to measure of a candidate, and the rest where that is asked for."""
    lines = [(text, "") for text in asked_texts(report, candidate)]
    if verbose:
        lines += [(text, "") for text in candidate.reasons]
        lines += [(f"{label}: {text}", "") for label, text in scope(report, candidate)]
        lines += [(text, "dim") for text in meaning_texts(candidate)]
        lines += [(f"note: {note}", "dim") for note in alike_once(candidate.notes)]
    if not lines:
        return
    console.print(Text(printable(candidate.name), style="bold"))
    for text, style in lines:
        console.print(Text(f"  {printable(text)}", style=style))
