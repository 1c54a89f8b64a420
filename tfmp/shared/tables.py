"""Tables for a terminal."""

from collections.abc import Sequence


def table(cells: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns as wide as they need, with a line below the heading.

    Args:
        cells: the heading first; every row has as many cells.
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [cells[0], ["-" * width for width in widths], *cells[1:]]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
