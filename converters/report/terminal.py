"""The report on a terminal."""

from collections.abc import Sequence
from dataclasses import fields

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.converters.report.summary import (
    HEADINGS,
    NONE,
    SIGNS,
    Row,
    data_notes,
    headline,
    latency_cells,
    meaning_texts,
    printable,
    row_of,
    told,
)
from tfmp.shared.wording import alike_once, table

_STYLES = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
}

_NUMERIC = ("rel_l2", "max_abs", "sqnr_db", "flips", "score", "size", "latency")

# Columns that a narrow terminal leaves out, in this order; every file rendering has them.
_DISPENSABLE = ("runner", "max_abs", "size", "sqnr_db", "latency", "fp16")
_NARROW = 3

# Wider than any table, to ask one how wide it would be.
_UNBOUNDED = 10_000


def print_report(report: DriftReport, console: Console) -> None:
    """Prints the table of candidates, and under it why each has its verdict."""
    rows = [row_of(candidate) for candidate in report.candidates]
    console.print(_fitting_table(rows, console))
    for candidate in report.candidates:
        _print_reasons(candidate, told(report, candidate), console)
    if cells := latency_cells(report):
        console.print(Text(table(cells)))
    for note in data_notes(report):
        console.print(Text(f"note: {printable(note)}", style="dim"))
    line = Text()
    line.append_text(_verdict(report.verdict))
    line.append(f"  {headline(report)}")
    console.print(line)


def _fitting_table(rows: list[Row], console: Console) -> Table:
    """With as many columns as leave the names of candidates in one piece."""
    unbounded = console.options.update(width=_UNBOUNDED)
    for count in range(len(_DISPENSABLE) + 1):
        table = _table(rows, _DISPENSABLE[:count])
        if Measurement.get(console, unbounded, table).maximum <= console.width:
            return table
    return _table(rows, _DISPENSABLE[:_NARROW])  # a name wider than that is folded anyway


def _table(rows: list[Row], left_out: Sequence[str]) -> Table:
    """Columns in which no candidate has a value are left out too."""
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    names = [item.name for item in fields(Row)]
    shown = [
        name
        for name in names
        if name not in left_out
        and (name == "verdict" or any(getattr(row, name) != NONE for row in rows))
    ]
    for name in shown:
        heading = "Verdict" if name == "verdict" else getattr(HEADINGS, name)
        table.add_column(
            heading,
            justify="right" if name in _NUMERIC else "left",
            overflow="fold",
            no_wrap=name != "candidate",
        )
    for row in rows:
        cells = [Text(str(getattr(row, name))) for name in shown]
        cells[-1] = _verdict(row.verdict)
        table.add_row(*cells)
    return table


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{SIGNS[verdict]} {verdict}", style=_STYLES[verdict])


def _print_reasons(candidate: CandidateReport, lines: list[str], console: Console) -> None:
    title = Text()
    title.append(f"{SIGNS[candidate.verdict]} ", style=_STYLES[candidate.verdict])
    title.append(printable(candidate.name), style="bold")
    console.print(title)
    for reason in candidate.reasons:
        console.print(Text(f"  {printable(reason)}"))
    for text in lines:
        console.print(Text(f"  {text}"))
    for text in meaning_texts(candidate):
        console.print(Text(f"  {text}", style="dim"))
    for note in alike_once(candidate.notes):
        console.print(Text(f"  note: {printable(note)}", style="dim"))
