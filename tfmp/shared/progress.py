"""Progress: news from long work about its current stage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


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
