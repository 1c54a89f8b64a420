"""Self-contained pages: one HTML file with style and pictures in it, without scripts.

The look of all reports of this project is here and in `templates/`: the style, rows of bars, and
curves whose ink follows the page.
"""

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In a cell without a value.
NONE = "-"

# A sign for each verdict, beside its colour.
SIGNS = {"PASS": "✓", "FAIL": "✗", "INCONCLUSIVE": "?"}

# Colours of figures that the page replaces with its own: see `inline_svg`.
INK, QUIET = "#010203", "#040506"

# Height of a report in a notebook, in letters.
TALL = 32

# Okabe and Ito's colours, which people with any colour vision tell apart, without black and yellow;
# https://jfly.uni-koeln.de/color/
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


@dataclass(frozen=True)
class Bar:
    """One row of a picture: `bars` in templates/bars.html.j2 draws it.

    Attributes:
        label: name of the measured value.
        text: the value in words.
        length: length of the bar, as a share of the track.
        bound: end of a thin line (an upper bound, a slow tail), as a share of the track; None for
            a bar without a line.
        cut: whether the value goes on beyond the track.
        verdict: PASS, FAIL or INCONCLUSIVE, which colours the bar; None for a neutral bar.
    """

    label: str
    text: str
    length: float
    bound: float | None = None
    cut: bool = False
    verdict: str | None = None


def scaled(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    """Bars whose lengths and bounds are values, as shares of the longest of both."""
    longest = max((max(bar.length, bar.bound or 0.0) for bar in bars), default=0.0) or 1.0
    return tuple(
        replace(
            bar,
            length=bar.length / longest,
            bound=None if bar.bound is None else bar.bound / longest,
        )
        for bar in bars
    )


def framed(headline: str, page: str, height_rem: float = TALL) -> str:
    """A page as the output of a notebook's cell: in a frame, which keeps its style to itself.

    Args:
        headline: the conclusion; all that viewers show which leave frames out, such as GitHub's.
        page: a page that needs no other file.
        height_rem: height of the frame in letters, which readers can change.
    """
    # Without it a link to a place of the page would load the notebook into the frame.
    page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
    return (
        f"<details open><summary>{html.escape(printable(headline))}</summary>"
        f'<iframe srcdoc="{html.escape(page)}" sandbox title="report" '
        f'style="width: 100%; height: {height_rem}rem; border: 0; resize: vertical"></iframe>'
        "</details>"
    )


def inline_svg(figure: "Figure", salt: str) -> str:
    """A figure as SVG for a page, whose ink and text follow the page, light or dark.

    Args:
        figure: a Matplotlib figure; text in it has the colours `INK` and `QUIET`.
        salt: another one for each figure of a page, so that their parts have different names.
    """
    from matplotlib import rc_context

    for axes in figure.axes:
        axes.tick_params(which="both", colors=INK)
        axes.xaxis.label.set_color(INK)
        axes.yaxis.label.set_color(INK)
        axes.title.set_color(INK)
        legend = axes.get_legend()
        for label in legend.get_texts() if legend else ():
            label.set_color(INK)
        for side in axes.spines.values():
            side.set_color(QUIET)
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return text.replace(INK, "var(--ink)").replace(QUIET, "var(--quiet)")


def printable(text: str) -> str:
    """The text with control and direction characters spelled out.

    Names come from models and files: an escape sequence in one must not reach a terminal, nor a
    right-to-left mark turn a verdict round.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
