"""What a table of classes says of one class."""

from tfmp.converters.drift.classes import MILLION, SUMS, ClassTable


def lost(table: ClassTable, name: str) -> tuple[int, float]:
    """Decisions of the reference for a class, and the shares of changes, added over samples."""
    return _of(table.rows[name][: len(SUMS)].tolist())


def gained(table: ClassTable, name: str) -> tuple[int, float]:
    """Decisions of the candidate for a class, and the shares of changes, added over samples."""
    return _of(table.rows[name][len(SUMS) :].tolist())


def _of(sums: list[int]) -> tuple[int, float]:
    row = dict(zip(SUMS, sums, strict=True))
    return row["decisions"], row["changed"] / MILLION
