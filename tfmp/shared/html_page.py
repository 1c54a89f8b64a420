"""Self-contained pages: one HTML file with style and pictures in it, without scripts.

The look of all reports of this project is here and in `templates/`: the style, rows of bars, and an
environment whose templates escape every value.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

# In a cell without a value.
NONE = "-"


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


def page_environment(package: str) -> "Environment":
    """The templates of a package, and the shared ones; they escape every value.

    Args:
        package: a package with a folder `templates`.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("tfmp.shared")]),
        autoescape=True,  # every name comes from a model or a file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spell_out,
    )


def printable(text: str) -> str:
    """The text with control and direction characters spelled out.

    Names come from models and files: an escape sequence in one must not reach a terminal, nor a
    right-to-left mark turn a verdict round.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _spell_out(value: object) -> object:
    """Makes control characters in names visible; markup is not changed."""
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return NONE if value is None else value
