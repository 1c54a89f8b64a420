"""Pages that need nothing else: one HTML file with style and pictures in it, without scripts.

What every report of this project looks like is here and in `templates/`: the style, rows of bars,
and an environment whose templates escape every value.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

# In a cell without a value.
NONE = "-"


@dataclass(frozen=True)
class Bar:
    """One row of a picture: `bars` in templates/bars.html.j2 draws it.

    Attributes:
        label: what it measures.
        text: the value in words.
        length: of the bar, share of the track.
        bound: where a thin line goes on to (an upper bound, a slow tail), share of the track; None
            without one.
        cut: the value goes on beyond the track.
        verdict: PASS, FAIL or INCONCLUSIVE, which colours the bar; None for a neutral one.
    """

    label: str
    text: str
    length: float
    bound: float | None = None
    cut: bool = False
    verdict: str | None = None


def page_environment(package: str) -> "Environment":
    """Templates of a package over those that all reports share; they escape every value.

    Args:
        package: has a folder `templates`.
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


def _spell_out(value: Any) -> Any:
    """Control characters in names made visible; what is already markup is left alone."""
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return NONE if value is None else value
