"""Tables of public reports, row by row."""

from collections.abc import Iterable
from typing import Any

import repository


def rows_by_thread(name: str) -> dict[str, list[str]]:
    """The cells of each row of a table, by the thread that its second cell links to."""
    rows = [list(row.values()) for row in repository.table(name)]
    return {cells[1].partition("](")[0].removeprefix("["): cells for cells in rows}


def assert_all_in_order(name: str, cases: Iterable[Any]) -> None:
    """A table has all cases in their order, with their links and words."""
    found = rows_by_thread(name)
    assert len(found) >= 25
    assert [row[:3] for row in found.values()] == [
        [str(number), f"[{case.thread}]({case.link})", case.title]
        for number, case in enumerate(cases, 1)
    ]
