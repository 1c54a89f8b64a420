"""Pages of public reports: their tables, as a reader sees them."""

import re
from pathlib import Path


def rows_by_thread(page: Path) -> dict[str, list[str]]:
    """The cells of the rows whose second cell links to a thread, by the thread's name."""
    found = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        thread = re.match(r"\[([^]]+#\d+)\]\(", cells[1]) if line.startswith("| ") else None
        if thread is not None:
            found[thread[1]] = cells
    return found
