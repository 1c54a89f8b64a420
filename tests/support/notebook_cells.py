"""Pages as tests read them; and the output of a notebook's cell, which is a frame with a page."""

from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The tags of a page, which close in order, and its words without those of its style."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self._text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self._text).split())


def headline_and_page(cell: str) -> tuple[str, str]:
    """What a cell shows above its frame, and the page in the frame."""
    found = Page(cell)
    assert [tag for tag, _ in found.tags] == ["details", "summary", "iframe"]
    assert [tag for tag, attributes in found.tags if "style" in attributes] == ["iframe"]
    frame = found.tags[-1][1]
    assert "sandbox" in frame
    page = frame["srcdoc"]
    assert page is not None
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    return found.words, page
