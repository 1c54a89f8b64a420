"""Hands tasks to workers that may die, and gives results in the order of the tasks, each once."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tfmp.converters.shared.errors import InputError

# A task that ends this many workers is to blame itself, and so is a start that fails as often.
_ATTEMPTS = 3

# Tasks for each worker that are read ahead of the oldest unfinished one: this bounds memory.
_WINDOW = 4


class Lost(Exception):
    """A worker ended without an answer; the text says why, as far as that is known."""


class Crew(Protocol):
    """Workers, and their tasks; a ticket stands for an answer that is not there yet."""

    size: int

    def hire(self) -> Any:
        """Starts a worker; gives it."""

    def opened(self, worker: Any) -> Any:
        """The ticket for a worker's start."""

    def give(self, worker: Any, task: Any) -> Any:
        """The ticket for a task."""

    def next_done(self, tickets: list[Any]) -> Any:
        """Waits for one of the tickets."""

    def result(self, ticket: Any) -> Any:
        """The answer that a ticket stands for; raises `Lost` if its worker has ended."""

    def dismiss(self, worker: Any) -> None:
        """Ends a worker, if it has not ended yet."""


@dataclass
class _Job:
    index: int
    task: Any
    losses: int = 0


class Dispatch:
    """One run of tasks over a crew.

    A worker keeps nothing of a task: its answer is complete, is taken once, and is all there is to
    lose. So a task whose worker died runs again on another one, and cannot count twice.
    """

    def __init__(self, crew: Crew) -> None:
        """Starts nobody yet."""
        self._crew = crew
        self._window = _WINDOW * crew.size
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, _Job | None]] = {}
        self._again: deque[_Job] = deque()
        self._failed_starts = 0
        self.replaced = 0

    def run(self, tasks: Iterator[Any]) -> Iterator[Any]:
        """Results, in the order of the tasks. The first is in before the second task is given.

        Raises:
            InputError: workers do not start, or one task ends every worker that it is given to.
        """
        done: dict[int, Any] = {}
        given = taken = 0
        more = True
        for _ in range(self._crew.size):
            self._hire()
        while True:
            while taken in done:
                yield done.pop(taken)
                taken += 1
            limit = taken + self._window if taken else 1
            while self._idle and (self._again or (more and given < limit)):
                if self._again:
                    self._give(self._again.popleft())
                    continue
                try:
                    self._give(_Job(given, next(tasks)))
                    given += 1
                except StopIteration:
                    more = False
            if taken == given and not more:
                return
            self._collect(done)

    def _hire(self) -> None:
        worker = self._crew.hire()
        self._running[self._crew.opened(worker)] = worker, None

    def _give(self, job: _Job) -> None:
        worker = self._idle.pop()
        self._running[self._crew.give(worker, job.task)] = worker, job

    def _collect(self, done: dict[int, Any]) -> None:
        ticket = self._crew.next_done(list(self._running))
        worker, job = self._running.pop(ticket)
        try:
            answer = self._crew.result(ticket)
        except Lost as error:
            self._crew.dismiss(worker)
            self._replace(job, str(error))
            return
        self._idle.append(worker)
        if job is None:
            self._failed_starts = 0
        else:
            done[job.index] = answer

    def _replace(self, job: _Job | None, why: str) -> None:
        if job is None:
            self._failed_starts += 1
            if self._failed_starts == _ATTEMPTS:
                raise InputError(
                    f"ray: {_ATTEMPTS} workers in a row could not start; the last one: {why}. "
                    "Install the same tfmp on every machine, and see that a worker has memory for "
                    "the models."
                )
        else:
            job.losses += 1
            if job.losses == _ATTEMPTS:
                raise InputError(
                    f"ray: batch {job.index + 1} ended {_ATTEMPTS} workers; the last one: {why}. "
                    "Where memory is short, take fewer workers for each machine or smaller batches."
                )
            self._again.append(job)
        self.replaced += 1
        self._hire()
