"""The documentation site: what MkDocs adds to the pages in this folder, and its drawings.

MkDocs imports this file for its hooks. Mermaid drawings stand on the site as pictures, so that no
page needs the network. After a drawing was changed:

    npm install mermaid
    python docs/site.py node_modules/mermaid/dist/mermaid.min.js
"""

import csv
import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PICTURES = DOCS / "drawings"
TABLES = DOCS / "tables"

# Reports that `make docs` has made with `samples/digits_end_to_end.py`.
DEMO = DOCS.parent / "build" / "demo"
REPORTS = ("training.html", "drift.html")

# Links from a page to a file of the repository that is no page.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)\)")
# Links from a page to the file of a table, which has a section of its own on the site.
_TABLE = re.compile(r"\(tables/([a-z0-9-]+)\.csv\)")
_DRAWING = re.compile(r"```mermaid\n(.*?)```\n", re.DOTALL)

BAR = "&#124;"

# Hides the rows of all tables that do not have the words of the field.
_SEARCH = """
<input id="search-rows" type="search" aria-label="Search in all rows"
  placeholder="Search in all rows, such as Conv2D">
<script>
document.getElementById("search-rows").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(" ");
  for (const row of document.querySelectorAll("article tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
</script>
"""

_PAGE = """<!DOCTYPE html><meta charset="utf-8"><pre class="mermaid">{drawing}</pre>
<script>{script}</script>
<script>mermaid.initialize({{startOnLoad: true, theme: "neutral"}});</script>
"""


def on_files(files: Any, config: Any) -> Any:
    """Adds the demo's reports as live pages."""
    from mkdocs.structure.files import File

    for name in REPORTS:
        files.append(File.generated(config, f"demo/{name}", content=(DEMO / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Shows drawings, and names files of the repository where the site has no page to link to."""
    if page.file.src_uri.count("/") == 0:
        markdown = _OUTSIDE.sub(r"\1 (`\2` in the repository)", markdown)
    if page.file.src_uri == "tables.md":
        markdown += _SEARCH + "".join(map(_as_table, sorted(TABLES.glob("*.csv"))))
    markdown = _TABLE.sub(r"(tables.md#\1)", markdown)
    return _DRAWING.sub(_as_picture, markdown)


def _as_table(path: Path) -> str:
    """The section of a table, with the anchor that links to its file lead to."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    lines = [head, ["---"] * len(head), *rows]
    body = "\n".join(f"| {' | '.join(c.replace('|', BAR) for c in cells)} |" for cells in lines)
    return f"\n## {path.stem} {{ #{path.stem} }}\n\n{body}\n"


def _as_picture(found: re.Match[str]) -> str:
    return f"![Drawing](drawings/{drawn(found[1]).name}){{ .drawing }}\n"


def drawn(drawing: str) -> Path:
    """The picture of a drawing, which is named after its text."""
    return PICTURES / f"drawing-{hashlib.sha256(drawing.encode()).hexdigest()[:12]}.svg"


def drawings() -> list[str]:
    """All drawings of the pages."""
    return _DRAWING.findall("\n".join(page.read_text() for page in sorted(DOCS.glob("*.md"))))


def render(drawing: str, script: str) -> str:
    """The drawing as SVG, by Mermaid in headless Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(_PAGE.format(drawing=html.escape(drawing), script=script))
        options = "--headless --no-sandbox --virtual-time-budget=20000 --dump-dom".split()
        done = subprocess.run(
            ["chromium", *options, page.as_uri()], capture_output=True, text=True, check=True
        )
    (svg,) = re.findall(r"<svg id=.*?</svg>", done.stdout, re.DOTALL)
    return svg.replace("<br>", "<br/>") + "\n"


def main() -> None:
    """Renders new drawings, and removes pictures of drawings that are gone."""
    if len(sys.argv) != 2 or not shutil.which("chromium"):
        sys.exit("usage: python docs/site.py mermaid.min.js   (needs chromium)")
    script = Path(sys.argv[1]).read_text()
    known = {drawn(drawing): drawing for drawing in drawings()}
    for path in set(PICTURES.glob("drawing-*.svg")) - set(known):
        path.unlink()
    for path, drawing in known.items():
        if not path.exists():
            path.write_text(render(drawing, script))


if __name__ == "__main__":
    main()
