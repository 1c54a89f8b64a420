"""Sections on a terminal, without their pictures."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from tfmp.shared.html_page import printable
from tfmp.shared.reporting.sections import VERDICTS, Command, Section, Table

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}

# Wider than any table, to ask one how wide it would be.
_UNBOUNDED = 10_000


def print_section(
    section: Section, console: Console, dispensable: tuple[str, ...] = (), titled: bool = True
) -> None:
    """Prints a section.

    Args:
        section: the section; of those inside it, too.
        console: the terminal.
        dispensable: columns that a narrow terminal leaves out, in this order.
        titled: whether its title is printed; those of sections inside it always are.
    """
    if not section.shown:
        return
    if titled:
        console.print(Text(printable(section.title), style="bold"))
    for place, table in enumerate(section.tables):
        if place and table.rows:
            console.print()
        print_table(table, console, dispensable)
    for line in section.lines:
        _print_fact("", line, 2, console)
    width = 4 + max((len(name) for name, _ in section.facts), default=0)
    for name, text in section.facts:
        _print_fact(f"  {printable(name)}", text, width, console)
    for part in section.parts:
        print_section(part, console)
    for line in section.quiet:
        console.print(Text(printable(line), style="dim"))


def print_table(table: Table, console: Console, dispensable: tuple[str, ...] = ()) -> None:
    """Prints a table with as many columns as leave the names in the first in one piece."""
    if not table.rows:
        return
    unbounded = console.options.update(width=_UNBOUNDED)
    for count in range(len(dispensable) + 1):
        drawn = _rich(table.without(*dispensable[:count]))
        if Measurement.get(console, unbounded, drawn).maximum <= console.width:
            break
    if table.caption:
        console.print(Text(printable(table.caption), style="dim"))
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


def _print_fact(name: str, text: str, width: int, console: Console) -> None:
    """A command stays in one piece, to be pasted; other text hangs beside its name."""
    if isinstance(text, Command):
        console.print(Text(f"{name:{width}}{printable(text)}"), soft_wrap=True)
        return
    grid = RichTable.grid()
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name), Text(printable(text)))
    console.print(grid)
