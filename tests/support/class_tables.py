"""What a table of classes says of one class."""

from tfmp.converters.drift.classes import SUMS, ClassTable


def lost(table: ClassTable, name: str) -> tuple[int, int]:
    """Decisions of the reference for a class, and those of them that changed."""
    row = dict(zip(SUMS, table.rows[name][: len(SUMS)].tolist(), strict=True))
    return row["decisions"], row["changed"]


def gained(table: ClassTable, name: str) -> tuple[int, int]:
    """Decisions of the candidate for a class, and those of them that changed."""
    row = dict(zip(SUMS, table.rows[name][len(SUMS) :].tolist(), strict=True))
    return row["decisions"], row["changed"]
