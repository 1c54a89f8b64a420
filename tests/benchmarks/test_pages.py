"""A long table of a page becomes a CSV file, cell by cell; a short one stays."""

from pathlib import Path

from repository import BENCHMARKS
from scripts import script

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
