"""A report as sections of sentences, pictures, tables and facts: each rendering shows these."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tfmp.shared.html_page import NONE, SIGNS, Bar, printable

# A cell with a verdict, as every rendering writes it in colour.
VERDICTS = {f"{sign} {verdict}": verdict for verdict, sign in SIGNS.items()}


class Command(str):
    """A command that can be pasted: renderings keep it in one piece."""


@dataclass(frozen=True)
class Table:
    """A table of words and numbers.

    Attributes:
        heading: the names of the columns.
        rows: the cells; a row has as many as the heading.
        caption: what the table shows, in a line.
        words: headings of the columns of words; the other ones are of numbers.
        folded: whether a page shows the table only on demand.
    """

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    words: tuple[str, ...] = ()
    folded: bool = False

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.heading, *self.rows, strict=True)]
        lines = [self.heading, ["-" * width for width in widths], *self.rows]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def without(self, *headings: str) -> Self:
        """The table without some of its columns."""
        kept = [place for place, name in enumerate(self.heading) if name not in headings]
        return replace(
            self,
            heading=tuple(self.heading[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )


@dataclass(frozen=True)
class Picture:
    """Bars under each other.

    Attributes:
        caption: what the bars show, in a line.
        bars: the bars; a picture without bars is not shown.
        line: place of a dashed line, as a share of the track; None for no line.
    """

    caption: str
    bars: tuple[Bar, ...]
    line: float | None = None


@dataclass(frozen=True)
class Drawing:
    """A figure as SVG; without any, it is not shown.

    Attributes:
        caption: what to see, in a line.
        svg: as `inline_svg` gives it.
    """

    caption: str
    svg: str


@dataclass(frozen=True)
class Sample:
    """A sample beside its answers, with its image where it is one (PNG in base64)."""

    text: str
    image: str | None


@dataclass(frozen=True)
class Section:
    """A part of a report, with a title.

    Attributes:
        title: of the section.
        lines: sentences.
        pictures: pictures of bars.
        drawings: figures.
        tables: tables; one without rows is not shown.
        samples: some of the samples.
        facts: names and values, which may be commands.
        parts: sections inside it.
        quiet: notes of less weight.
    """

    title: str
    lines: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    tables: tuple[Table, ...] = ()
    samples: tuple[Sample, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    parts: tuple["Section", ...] = ()
    quiet: tuple[str, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether it has anything to show."""
        drawn = any(picture.bars for picture in self.pictures)
        drawn = drawn or any(drawing.svg for drawing in self.drawings)
        filled = any(table.rows for table in self.tables) or any(one.shown for one in self.parts)
        return drawn or filled or bool(self.lines or self.samples or self.facts or self.quiet)


def cell(text: Callable[[Any], str], value: Any) -> str:
    """A value in words; of none, the sign for it."""
    return NONE if value is None else text(value)


def table_of(
    caption: str,
    items: Sequence[Any],
    columns: Mapping[str, Callable[[Any], str]],
    words: Sequence[str] = (),
    folded: bool = False,
) -> Table:
    """A row for each item, of columns that have a value in any row."""
    cells = {name: tuple(printable(told(item)) for item in items) for name, told in columns.items()}
    cells = {name: column for name, column in cells.items() if set(column) != {NONE}}
    rows = tuple(zip(*cells.values(), strict=True))
    return Table(tuple(cells), rows, caption, tuple(words), folded)


def page(
    title: str,
    heading: str,
    headline: str,
    parts: Sequence[Section],
    verdict: str = "",
    told: str | None = None,
) -> str:
    """Sections as a page.

    Args:
        title: of the window.
        heading: of the page.
        headline: the conclusion.
        parts: the sections; the first belongs to the conclusion.
        verdict: PASS, FAIL or INCONCLUSIVE; "" for a page without a verdict.
        told: the verdict in other words; "" to leave it to the heading.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if told is None:
        told = f"{SIGNS[verdict]} {verdict}" if verdict else ""
    environment = Environment(
        loader=PackageLoader("tfmp.shared"),
        autoescape=True,  # every name comes from a model or a file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_spelled_out,
    )
    environment.globals.update(signs=SIGNS, verdicts=VERDICTS)
    template = environment.get_template("sections.html.j2")
    return template.render(
        title=title,
        heading=heading,
        headline=headline,
        sections=parts,
        verdict=verdict,
        told=told,
    )


def _spelled_out(value: object) -> object:
    """Makes control characters in names visible; markup is not changed."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return NONE if value is None else value
