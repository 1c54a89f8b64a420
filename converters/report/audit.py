"""Shows an FP16 audit to people: a table on the terminal, and one HTML file."""

import json
import math
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tfmp.converters.report.model import check_path
from tfmp.converters.report.summary import number, percent
from tfmp.converters.tflite.audit import ActivationFinding, Audit
from tfmp.shared.atomic_file import replacing
from tfmp.shared.html_page import NONE, printable
from tfmp.shared.reporting import Section, Table, page, print_section, table_of
from tfmp.shared.wording import counted

AUDIT_SUFFIXES = (".json", ".html")

# Rows of the terminal's table: values in danger, and the nearest ones.
_MOST_ROWS = 15

_SIGNS = {
    "non-finite": "✗",
    "overflows": "✗",
    "divides by zero": "✗",
    "vanishes": "✗",
    "tight": "!",
    "fits": "✓",
}


def save_audit(audit: Audit, path: str | Path) -> None:
    """Writes the audit in the form that the suffix names: .json or .html."""
    path = check_path(path, AUDIT_SUFFIXES)
    html = path.suffix.lower() == ".html"
    text = to_html(audit) if html else json.dumps(audit.to_dict(), indent=2, allow_nan=False)
    with replacing(path) as draft:
        draft.write_text(text + "\n")


def headline(audit: Audit) -> str:
    """The audit's findings in one sentence."""
    dangers = len(audit.dangers)
    if not audit.samples:
        found = f"{dangers} of its constants" if dangers else "none of its constants"
        return f"{audit.model}: FP16 loses {found}; activations were not measured"
    lost = f"{counted(dangers, 'value')} that FP16 cannot hold"
    found = lost if dangers else "no value overflows or vanishes in FP16"
    return f"{audit.model}: {found}, on {audit.samples} samples"


def print_audit(
    audit: Audit, console: Console, *, brief: bool = False, verbose: bool = False
) -> None:
    """Prints the answer; then the most endangered activations, constants and the unknowns.

    Args:
        audit: of a model.
        console: the terminal.
        brief: print the answer only.
        verbose: print every activation and constant.
    """
    console.print(Text(printable(headline(audit)), style="bold red" if audit.dangers else "bold"))
    for section in () if brief else sections(audit, None if verbose else _MOST_ROWS):
        print_section(section, console)


def sections(audit: Audit, most: int | None = None) -> list[Section]:
    """The audit, with so many of its activations and constants; None for all."""
    shown, constants = audit.activations[:most], audit.constants[:most]
    return [
        Section(
            "Activations, the most endangered first",
            tables=(_table(shown),),
            quiet=_more(len(audit.activations) - len(shown), "activations are in less danger"),
        ),
        Section(
            "Constants",
            lines=tuple(f"{'✗' if one.serious else '!'} {one}" for one in constants)
            or ("FP16 only rounds the last digits of every constant.",),
            quiet=_more(len(audit.constants) - len(constants), "constants lose less"),
        ),
        Section("Not known from this audit", lines=audit.unknown),
    ]


def _more(others: int, told: str) -> tuple[str, ...]:
    return (f"{others} more {told}.",) if others else ()


def _table(found: tuple[ActivationFinding, ...]) -> Table:
    return table_of(
        "",
        found,
        {
            "Status": lambda one: f"{_SIGNS[one.status]} {one.status}",
            "Layer": lambda one: one.layer or one.name,
            "Operator": lambda one: one.op,
            "Smallest": lambda one: number(one.smallest),
            "Peak": lambda one: number(one.peak),
            "Hidden sum": _hidden,
            "Headroom": _headroom,
            "Divisor": lambda one: number(one.operand),
            "Become zero": lambda one: percent(one.vanishing) if one.vanishing else NONE,
        },
        ("Status", "Layer", "Operator"),
    )


def _hidden(found: ActivationFinding) -> str:
    return f"{number(found.accumulator)} {found.accumulator_of}" if found.accumulator else NONE


def _headroom(found: ActivationFinding) -> str:
    return f"2^{found.headroom:.1f}" if math.isfinite(found.headroom) else NONE


def to_html(audit: Audit) -> str:
    """The audit as a page with inline style, without scripts or other files."""
    title = f"FP16 audit of {audit.model}"
    return page(title, title, headline(audit), sections(audit))
