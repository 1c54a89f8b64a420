"""Reports in a notebook: framed, so that neither their style nor a name in them gets out."""

import html
import re
from dataclasses import dataclass

from notebook_cells import headline_and_page
from repository import ROOT

from tfmp.shared.reporting import Report, Section, Table

HOSTILE = '</iframe>"><script>alert(1)</script>\x1b'
SPELLED = HOSTILE.replace("\x1b", "\\x1b")


@dataclass(frozen=True)
class Told(Report):
    """A report of one table."""

    name: str
    rows: tuple[tuple[str, str], ...]
    heading = property(lambda self: self.name)
    signal = property(lambda self: ("FAIL", "✗ no") if self.name == HOSTILE else ("", ""))

    def sections(self, on_page: bool = True) -> list[Section]:
        table = Table(("layer", "because"), self.rows)
        return [Section(self.heading, (self.heading,), tables=(table,))]


def test_a_table_shows_every_cell_as_text():
    report = Told(HOSTILE, (("a", HOSTILE), ("b", "")))
    headline, page = headline_and_page(report._repr_html_())
    assert headline == f"✗ no. {SPELLED}"
    assert "<script" not in page
    assert '<header class="fail">' in page
    assert page.count("&lt;script&gt;") == 6  # two titles, heading, line, label and cell
    assert re.findall(r"<t[hd][^>]*>(\w*)</t", page) == ["layer", "because", "a", "b", ""]
    cells = [Told("t", (("a", "b"),) * rows)._repr_html_() for rows in (2, 4, 400)]
    assert '<header class="">' in html.unescape(cells[0])
    heights = [float(cell.rpartition("height: ")[2].partition("rem")[0]) for cell in cells]
    assert heights[0] < heights[1] < heights[2] == 32


def test_every_figure_of_a_page_has_a_name_for_those_who_do_not_see_it():
    pages = [page for wing in ("tfmp", "converters") for page in (ROOT / wing).rglob("*.j2")]
    figures = {page.name: re.findall(r"<figure[^>]*>", page.read_text()) for page in pages}
    assert sum(map(len, figures.values())) >= 1
    nameless = {
        name: figure
        for name, found in figures.items()
        for figure in found
        if not figure.startswith('<figure role="img" aria-label="')
    }
    assert nameless == {}
