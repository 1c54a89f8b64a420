"""What a table of classes says of one class."""

from tfmp.converters.drift.classes import MILLION, SUMS, ClassTable


def lost(table: ClassTable, name: str) -> tuple[int, float]:
    """Decisions of the reference for a class, and the shares of changes, added over samples."""
    row = dict(zip(SUMS, table.rows[name].tolist(), strict=True))
    return row["decisions"], row["changed"] / MILLION
