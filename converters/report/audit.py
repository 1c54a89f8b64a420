"""Shows an FP16 audit to people: a table on the terminal, and one HTML file with its picture."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfmp.converters.report.summary import printable
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_output
from tfmp.converters.tflite.audit import ActivationFinding, Audit
from tfmp.shared.atomic_file import replacing
from tfmp.shared.numerics import FLOAT16

SUFFIXES = (".json", ".html")

# Rows of the terminal's table and of the picture: values in danger, and the nearest ones.
_MOST_ROWS = 15
_MOST_DRAWN = 60

# The picture's scale: powers of two from below the subnormals to past every likely overflow.
_SCALE = (-32.0, 32.0)

_SIGNS = {
    "non-finite": "✗",
    "overflows": "✗",
    "divides by zero": "✗",
    "vanishes": "✗",
    "tight": "!",
    "fits": "✓",
}
_STYLES = {"✗": "bold red", "!": "bold yellow", "✓": "green"}
_KINDS = {"✗": "fail", "!": "inconclusive", "✓": "pass"}


def check_audit_path(path: str, force: bool = True) -> None:
    """Raises `InputError` unless an audit can be written there."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: expected an audit to end in {' or '.join(SUFFIXES)}, received suffix "
            f"{Path(path).suffix!r}. Rename the file."
        )
    check_output(Path(path), suffix, force)


def save_audit(audit: Audit, path: str | Path) -> None:
    """Writes the audit in the form that the suffix names: .json or .html."""
    check_audit_path(str(path))
    html = Path(path).suffix.lower() == ".html"
    text = to_html(audit) if html else json.dumps(audit.to_dict(), indent=2, allow_nan=False)
    with replacing(Path(path)) as draft:
        draft.write_text(text + "\n")


def headline(audit: Audit) -> str:
    """The audit's findings in one sentence."""
    dangers = len(audit.dangers)
    if not audit.samples:
        found = f"{dangers} of its constants" if dangers else "none of its constants"
        return f"{audit.model}: FP16 loses {found}; activations were not measured"
    found = f"{dangers} values that FP16 cannot hold" if dangers else "no value that FP16 loses"
    if dangers == 1:
        found = "1 value that FP16 cannot hold"
    return f"{audit.model}: {found}, on {audit.samples} samples"


def print_audit(audit: Audit, console: Console) -> None:
    """Prints the constants, the most endangered activations and the unknowns."""
    for constant in audit.constants[:_MOST_ROWS]:
        line = Text("✗ " if constant.serious else "! ")
        line.stylize(_STYLES[line.plain[0]])
        console.print(line.append(printable(str(constant)), style="default"))
    if len(audit.constants) > _MOST_ROWS:
        console.print(f"  and {len(audit.constants) - _MOST_ROWS} more constants")
    if audit.activations:
        console.print(_table(audit.activations[:_MOST_ROWS]))
        if len(audit.activations) > _MOST_ROWS:
            console.print(f"and {len(audit.activations) - _MOST_ROWS} more that are in less danger")
    for unknown in audit.unknown:
        console.print(Text(f"unknown: {printable(unknown)}", style="dim"))
    console.print(Text(printable(headline(audit)), style="bold red" if audit.dangers else "bold"))


def _table(findings: tuple[ActivationFinding, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for heading in ("Status", "Layer", "Operator", "Peak", "Hidden sum", "Headroom", "Divisor"):
        number = heading in ("Peak", "Hidden sum", "Headroom", "Divisor")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for found in findings:
        row = row_of(found)
        table.add_row(
            Text(row.status, style=_STYLES[row.sign]),
            printable(row.layer),
            found.op,
            row.peak,
            row.hidden,
            row.headroom,
            row.divisor,
        )
    return table


@dataclass(frozen=True)
class AuditRow:
    """One activation in words and, as shares of the picture's width, in lengths."""

    sign: str
    kind: str
    status: str
    layer: str
    peak: str
    hidden: str
    headroom: str
    divisor: str
    start: float
    end: float
    hidden_end: float | None


def row_of(found: ActivationFinding) -> AuditRow:
    """The row of one activation in the table and the picture."""
    sign = _SIGNS[found.status]
    largest = max(found.peak, found.accumulator)
    return AuditRow(
        sign=sign,
        kind=_KINDS[sign],
        status=f"{sign} {found.status}",
        layer=found.layer or found.name,
        peak=f"{found.peak:.3g}",
        hidden=f"{found.accumulator:.3g} {found.accumulator_of}" if found.accumulator else "-",
        headroom=f"2^{found.headroom:.1f}" if math.isfinite(found.headroom) else "-",
        divisor="-" if found.operand is None else f"{found.operand:.3g}",
        start=_share(found.smallest),
        end=max(_share(found.peak), _share(found.smallest)),
        hidden_end=_share(largest) if found.accumulator > found.peak else None,
    )


def _share(value: float) -> float:
    """The place of a magnitude on the picture's scale, from 0 to 1."""
    low, high = _SCALE
    exponent = math.log2(value) if value > 0 else low
    return (min(max(exponent, low), high) - low) / (high - low)


def to_html(audit: Audit) -> str:
    """The audit as a page with inline style and pictures, without scripts or other files."""
    from tfmp.converters.report.html import template_environment

    rows = [(found, row_of(found)) for found in audit.activations[:_MOST_DRAWN]]
    template = template_environment().get_template("audit.html.j2")
    return template.render(
        audit=audit,
        headline=headline(audit),
        rows=rows,
        more=max(0, len(audit.activations) - _MOST_DRAWN),
        limits=[
            ("vanishes below", _share(FLOAT16.smallest_subnormal)),
            ("full precision from", _share(FLOAT16.smallest_normal)),
            ("overflows past", _share(FLOAT16.max)),
        ],
    )
