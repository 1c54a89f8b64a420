"""Writes pages whose long tables are CSV files in docs/tables, which the site shows on one page."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "docs" / "tables"
# Rows that a reader takes in on a page.
MOST_ROWS = 20

_ESCAPED = "\\|"
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def write_page(page: Path, text: str) -> None:
    """Writes a page in Markdown, and its tables of more than `MOST_ROWS` rows as CSV files.

    The first such table is named after the page, the others also after their heading.
    """
    named: list[str] = []

    def moved(found: re.Match[str]) -> str:
        head, _, *rows = map(cells, found[0].splitlines())
        if len(rows) <= MOST_ROWS:
            return found[0]
        heading = re.findall(r"^#+ (.*)$", text[: found.start()], re.MULTILINE)[-1]
        name = f"{page.stem}-{_slug(heading)}" if named else page.stem
        named.append(name)
        path = page.parent / TABLES.name / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
        return f"All {len(rows)} rows: [{name}.csv](tables/{name}.csv).\n"

    page.write_text(_TABLE.sub(moved, text), encoding="utf-8")


def table(rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table in Markdown, its heading first; the columns behind the first `words` are numbers."""
    heading, *others = rows
    rule = ["---" if place < words else "---:" for place in range(len(heading))]
    return "\n".join(map(line, (heading, rule, *others)))


def write_part(page: Path, script: str, text: str) -> None:
    """Writes what one script tells into its part of a page, between two comments."""
    start, end = f"<!-- {script} -->\n", f"<!-- end of {script} -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(start)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{start}\n{text}\n\n{end}{after}", encoding="utf-8")


def line(row: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cell.replace('|', _ESCAPED) for cell in row)} |"


def cells(line: str) -> list[str]:
    """The cells of a row of a table in Markdown."""
    inside = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(_ESCAPED, "|") for cell in re.split(r"(?<!\\)\|", inside)]


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
