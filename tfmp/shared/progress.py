"""Progress: news from long work about its current stage."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tfmp.shared.html_page import printable

# A notebook that is told of every batch has no time for anything else.
_SECONDS_BETWEEN_NEWS = 0.2


# Functions of users: called with a few words when a stage begins; and with its samples or steps
# that are done, and all of them, or None if their number is unknown.
OnStage: TypeAlias = Callable[[str], None] | None
OnCount: TypeAlias = Callable[[int, int | None], None] | None


class Progress:
    """Gets news from long work, and tells them to functions; by itself to nobody."""

    def __init__(self, stage: OnStage = None, counted: OnCount = None) -> None:
        self._to_stage, self._to_counted = stage, counted

    def __call__(self, text: str) -> None:
        """A stage begins; `text` names it in a few words."""
        if self._to_stage is not None:
            self._to_stage(text)

    def count(self, done: int, total: int | None) -> None:
        """So many samples or steps of the stage are done; `total` is None if it is unknown."""
        if self._to_counted is not None:
            self._to_counted(done, total)


# The default: nobody listens.
SILENT = Progress()


class _Cell(Progress):
    """A bar in the output of a notebook's cell, which is gone when the work is done."""

    def __init__(self) -> None:
        super().__init__()
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._stage = ""
        self._told_at = -_SECONDS_BETWEEN_NEWS

    def __call__(self, text: str) -> None:
        self._stage = text
        self._show("<progress></progress>", text)

    def count(self, done: int, total: int | None) -> None:
        if time.monotonic() - self._told_at < _SECONDS_BETWEEN_NEWS and done != total:
            return
        self._told_at = time.monotonic()
        known = f' value="{done}" max="{total}"' if total else ""
        of = f"{done:,} of {total:,}" if total else f"{done:,}"
        self._show(f"<progress{known}></progress>", f"{self._stage}: {of}")

    def close(self) -> None:
        """Takes the bar away."""
        self._handle.update(self._html(""))

    def _show(self, bar: str, text: str) -> None:
        self._handle.update(self._html(f"{bar} {html.escape(printable(text))}"))


@contextmanager
def listening(stage: OnStage = None, counted: OnCount = None) -> Iterator[Progress]:
    """The `Progress` of a call: its caller's functions; in a notebook that gives none, a bar."""
    if stage is not None or counted is not None:
        yield Progress(stage, counted)
    elif not _in_notebook():
        yield SILENT
    else:
        cell = _Cell()
        try:
            yield cell
        finally:
            cell.close()


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, and no terminal."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
