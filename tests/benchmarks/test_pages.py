"""A long table of a page becomes a CSV file, cell by cell; a short one stays."""

import csv
from pathlib import Path

import pytest
from repository import BENCHMARKS, ROOT
from scripts import script

from tfmp.converters.tflite.rewriting.gaps import GAPS, without_gaps

pages = script(BENCHMARKS / "pages.py")


def test_a_long_table_moves_to_a_file_of_the_pages_name(tmp_path: Path) -> None:
    rows = [[f"x{index}", "a|b"] for index in range(pages.MOST_ROWS + 1)]
    table = [["name", "value"], ["---", "---:"], *rows]
    long = "\n".join(map(pages.line, table))
    short = "| few |\n| --- |\n| 1 |\n"
    pages.write_page(tmp_path / "p.md", f"# Page\n\n{long}\n\n{short}\n## More, again\n\n{long}\n")
    first, second = "tables/p.csv", "tables/p-more-again.csv"
    assert (tmp_path / "p.md").read_text() == (
        f"# Page\n\nAll 21 rows: [p.csv]({first}).\n\n{short}\n"
        f"## More, again\n\nAll 21 rows: [p-more-again.csv]({second}).\n"
    )
    for name in (first, second):
        lines = (tmp_path / name).read_text().splitlines()
        assert lines[:2] == ["name,value", "x0,a|b"]
        assert len(lines) == 22


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_operator_of_the_table_is_missing_that_has_a_form_in_tflite() -> None:
    """What could be filled and is not, such as a running product over an open size, stays."""
    with (ROOT / "docs" / "tables" / "tflite-support.csv").open(encoding="utf-8") as file:
        told = {row["Model"]: row["Flex"] for row in csv.DictReader(file)}
    lacks = "TFLite has no operator for "
    missing = {n: set(w.removeprefix(lacks).split(", ")) for n, w in told.items() if lacks in w}
    doubted = {name for name, ops in missing.items() if ops & GAPS.keys()}
    opened = {row.name: row.open for row in script(BENCHMARKS / "tflite_table.py").rows()}
    assert doubted
    for name in doubted:
        source, _ = without_gaps(opened[name]()[0])
        graph = source.graph.graph.as_graph_def()
        nodes = [*graph.node, *(n for body in graph.library.function for n in body.node_def)]
        left = {node.op for node in nodes}
        assert missing[name] & left, name
