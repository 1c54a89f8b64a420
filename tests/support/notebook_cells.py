"""The output of a notebook's cell: a frame with a page, and no style for the notebook around it."""

from html.parser import HTMLParser


class _Cell(HTMLParser):
    """The tags of a cell, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def headline_and_page(cell: str) -> tuple[str, str]:
    """What a cell shows above its frame, and the page in the frame."""
    found = _Cell(cell)
    assert [tag for tag, _ in found.tags] == ["details", "summary", "iframe"]
    assert [tag for tag, attributes in found.tags if "style" in attributes] == ["iframe"]
    frame = found.tags[-1][1]
    assert "sandbox" in frame
    page = frame["srcdoc"]
    assert page is not None
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    return found.words, page
