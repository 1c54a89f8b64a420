"""Sections as Markdown: short lines for a pull request, in which no text is taken for Markdown."""

import re
from collections.abc import Iterator, Sequence

from tfmp.shared.html_page import printable
from tfmp.shared.reporting.sections import VERDICTS, Command, Section, Table

# Signs with a meaning in GitHub's Markdown, in a line or a table cell: marks, tags, entities,
# formulas, addresses, underscores at the edge of a word, and colons that begin a link or an emoji.
_SPECIAL = re.compile(
    r"([\\`*\[\]<|~&$@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=[\w/])|(?<=www)\.)"
)

# Signs with a meaning at the beginning of a line: headings, quotes, lists, rules, and numbers.
_LEADING = re.compile(r"(\d*)([#>+=.)-])")


def to_markdown(heading: str, headline: str, parts: Sequence[Section]) -> str:
    """Sections without their pictures, which Markdown cannot draw.

    Args:
        heading: of the report.
        headline: the conclusion.
        parts: the sections; the first belongs to the conclusion and has no heading.
    """
    lines = [f"## {escape(heading)}", "", _block(headline), ""]
    for place, part in enumerate(parts):
        written = [line for table in part.tables if table.rows for line in _table(table)]
        written += _items(part)
        if place and written:
            lines += [f"### {escape(part.title)}", ""]
        lines += [*written, ""]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from (_block(table.caption), "")
    yield _row(table.heading)
    yield f"|{'|'.join(' --- ' if name in table.words else ' ---: ' for name in table.heading)}|"
    yield from map(_row, table.rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_bold(one) if one in VERDICTS else escape(one) for one in cells)} |"


def _items(part: Section, level: int = 0) -> Iterator[str]:
    """Lines of a list; a mark without a text would underline the line before it."""
    texts = [_block(line) for line in part.lines]
    texts += [f"{_bold(name)} {_code(text) or escape(text)}".strip() for name, text in part.facts]
    for text in filter(None, texts):
        yield f"{'  ' * level}- {text}"
    for inner in filter(lambda inner: inner.shown, part.parts):
        if title := _bold(inner.title):
            yield f"{'  ' * level}- {title}"
        yield from _items(inner, level + bool(title))
    yield from (f"{'  ' * level}- {text}" for text in map(_block, part.quiet) if text)


def escape(text: str) -> str:
    """The text, escaped: Markdown shows any characters as they are."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _block(text: str) -> str:
    """A line whose first sign begins nothing but a text."""
    line = escape(text).strip()
    leading = _LEADING.match(line)
    return f"{leading[1]}\\{line[leading.end(1) :]}" if leading else line


def _bold(text: str) -> str:
    shown = escape(text).strip()
    return f"**{shown}**" if shown else ""


def _code(text: str) -> str:
    """A command between more backticks than any that it holds; "" for another text."""
    shown = printable(text).strip() if isinstance(text, Command) else ""
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else ""
