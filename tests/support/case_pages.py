"""Tables of public reports, row by row."""

import repository


def rows_by_thread(name: str) -> dict[str, list[str]]:
    """The cells of each row of a table, by the thread that its second cell links to."""
    rows = [list(row.values()) for row in repository.table(name)]
    return {cells[1].partition("](")[0].removeprefix("["): cells for cells in rows}
