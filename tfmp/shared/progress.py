"""Progress: news from long work about its current stage."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tfmp.shared.html_page import printable

# A notebook that is told of every batch has no time for anything else.
_SECONDS_BETWEEN_NEWS = 0.2


class Progress(Protocol):
    """Gets news from long work: the stage that begins, and the part of a stage that is done."""

    def __call__(self, text: str) -> None:
        """A stage begins; `text` names it in a few words."""

    def count(self, done: int, total: int | None) -> None:
        """So many samples or steps of the stage are done; `total` is None if it is unknown."""


def ignore_stage(text: str) -> None:
    """Takes the name of a stage and does nothing."""


def ignore_count(done: int, total: int | None) -> None:
    """Takes a count and does nothing."""


@dataclass(frozen=True)
class Told:
    """A `Progress` that is made of plain functions, such as functions of users.

    Attributes:
        stage: called when a stage begins.
        counted: called when more of the stage is done.
    """

    stage: Callable[[str], None] = ignore_stage
    counted: Callable[[int, int | None], None] = ignore_count

    def __call__(self, text: str) -> None:
        """See `Progress`."""
        self.stage(text)

    def count(self, done: int, total: int | None) -> None:
        """See `Progress`."""
        self.counted(done, total)


# The default: nobody listens.
SILENT: Progress = Told()


class _Cell:
    """A bar in the output of a notebook's cell, which is gone when the work is done."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._stage = ""
        self._told_at = -_SECONDS_BETWEEN_NEWS

    def __call__(self, text: str) -> None:
        """See `Progress`."""
        self._stage = text
        self._show("<progress></progress>", text)

    def count(self, done: int, total: int | None) -> None:
        """See `Progress`."""
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
def listening(
    stage: Callable[[str], None] | None = ignore_stage,
    counted: Callable[[int, int | None], None] = ignore_count,
) -> Iterator[Progress]:
    """The `Progress` of a call: its caller's functions or, if a notebook gives none, a bar there.

    Args:
        stage: called when a stage begins; None for nobody.
        counted: called when more of the stage is done.
    """
    nobody = stage in (None, ignore_stage) and counted is ignore_count
    if not nobody or not _in_notebook():
        yield Told(stage or ignore_stage, counted)
        return
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
