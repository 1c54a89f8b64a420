"""Progress of a command: one line on a terminal, nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfmp.shared.html_page import printable
from tfmp.shared.progress import SILENT, Progress

# Often enough to be alive, and too seldom to disturb what is timed in the same process.
_DRAWN_A_SECOND = 4


class _Live(Progress):
    """One line on a terminal: the stage and, where its parts are counted, rate and time left."""

    def __init__(self, display: Any, parts: str) -> None:
        super().__init__()
        self._display = display
        self._parts = parts
        self._stage = display.add_task("starting", total=None, rate="")
        self._counting = False

    def __call__(self, text: str) -> None:
        self._display.reset(self._stage, total=None, description=printable(text), rate="")
        self._counting = False

    def count(self, done: int, total: int | None) -> None:
        if not self._counting:
            # The first batch pays for memory and caches: the rate counts from its end.
            self._display.reset(self._stage, total=total)
            self._counting = True
        speed = self._display.tasks[0].speed
        of = f"{done:,}/{total:,}" if total else f"{done:,}"
        rate = f"{of} {self._parts}" + (f", {speed:,.0f}/s" if speed and speed >= 1 else "")
        self._display.update(self._stage, completed=done, total=total, rate=rate)


@contextmanager
def progress_bar(quiet: bool, parts: str = "") -> Iterator[Progress]:
    """Shows the progress of a command on stderr while it works.

    Args:
        quiet: show nothing; neither is anything shown where stderr is no terminal.
        parts: what is counted, such as "samples".
    """
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield SILENT
        return
    from rich.progress import (
        BarColumn,
        Progress as Display,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    display = Display(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=_DRAWN_A_SECOND,
        redirect_stdout=sys.stdout.isatty(),  # it would end up on stderr
    )
    with display:
        yield _Live(display, parts)
