"""Where things are in the repository that the tests belong to."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
SUPPORT = ROOT / "tests" / "support"


def blocks(text: str, language: str) -> list[str]:
    """The code of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def table(name: str) -> list[dict[str, str]]:
    """The rows of a table of docs/tables, by the names of their columns."""
    with (DOCS / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
