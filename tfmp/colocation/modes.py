"""The modes that train several jobs in one process: in a row, in turns, or in threads."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from tfmp.colocation.job import Job
from tfmp.colocation.mode_names import INTERLEAVED, SEQUENTIAL, THREADS
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.colocation.training import Training
from tfmp.machine import PeakMemory, is_out_of_memory
from tfmp.shared.backend import current_backend
from tfmp.shared.progress import SILENT, Progress
from tfmp.shared.wording import first_line

Result = TypeVar("Result")

# Letters of an error that are told.
_TOLD = 300


class JobRun:
    """A run of one job: its training, its clock, and the error that ended it.

    Args:
        job: the job to train.
        progress: as in `Training`.
    """

    def __init__(self, job: Job, progress: Progress = SILENT) -> None:
        self.training = Training(job, progress)
        self.error: BaseException | None = None
        self._began = self._ended = 0.0
        self._first_step = 0
        self._rounds: int | None = None
        self._last_step: int | None = None
        self._samples = 0

    @property
    def weight(self) -> int:
        """Steps in a round."""
        return self.training.job.weight

    @property
    def alive(self) -> bool:
        """Whether the job has steps left to take."""
        return self.error is None and not self._done

    @property
    def _done(self) -> bool:
        last = self._last_step
        return self.training.done or (last is not None and self.training.steps_taken >= last)

    def attempt(self, work: Callable[..., Result], *args: object) -> Result | None:
        """Calls a function for the job; an error ends only this job, and gives None."""
        try:
            return work(*args)
        except Exception as error:
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """Ends the job."""
        self.error = error
        self._stop_clock()

    def set_up(self) -> None:
        """Builds the job and takes its first step."""
        self.attempt(self.training.set_up)
        self.begin()

    def begin(self) -> None:
        """Starts the job's clock."""
        self._began = self._ended = time.perf_counter()
        self._first_step, self._samples = self.training.steps_taken, self.training.samples
        if self._rounds is not None:
            self._last_step = self._first_step + self._rounds * self.weight

    def step(self) -> None:
        """Takes a step; the last one ends the job."""
        self.attempt(self.training.step)
        self.end_if_done()

    def run(self) -> None:
        """Takes all steps that are left."""
        while self.alive:
            self.step()

    def stop_after(self, rounds: int) -> None:
        """Makes the job pause after so many rounds from its next beginning on."""
        self._rounds, self._last_step = rounds, None

    def end_if_done(self) -> None:
        """Stops the clock after the last step."""
        if self.error is None and self._done:
            self.attempt(self.training.wait)
            self._stop_clock()

    def _stop_clock(self) -> None:
        self._ended = time.perf_counter()

    def ended(self, start: float) -> JobResult:
        """Ends the training; returns the result of the job, with its model.

        Args:
            start: time at which the clock of all jobs started.
        """
        if self.error is None:
            self.attempt(self.training.end)
        model = self.training.model if self.error is None else None
        return replace(self._result(start), model=model)

    def paused(self, start: float) -> JobResult:
        """The result of the steps so far; more can be taken.

        Args:
            start: time at which the clock of all jobs started.
        """
        if self.error is None:
            self.attempt(self.training.sync)
        return self._result(start)

    def _result(self, start: float) -> JobResult:
        training = self.training
        running = self._ended - self._began
        history = training.history()
        samples = training.samples - self._samples
        return JobResult(
            name=training.job.name,
            policy=training.policy,
            steps=training.steps_taken,
            timed_steps=training.steps_taken - self._first_step,
            setup_s=training.setup_s,
            finished_s=max(0.0, self._ended - start),
            running_s=running,
            samples_per_second=samples / running if samples and running > 0 else None,
            loss=history["loss"][-1] if history.get("loss") else None,
            skipped_steps=0 if self.error else training.skipped_steps(),
            history=history,
            error=describe(self.error),
            out_of_memory=self.error is not None and is_out_of_memory(self.error),
            state_bytes=training.state_bytes(),
        )


def describe(error: BaseException | None) -> str:
    """An error in one line; empty for None."""
    if error is None:
        return ""
    kind = "out of memory" if is_out_of_memory(error) else type(error).__name__
    told = first_line(error) if str(error).strip() else ""
    return f"{kind}: {told[:_TOLD]}" if told else kind


def run_in_process(
    mode: str, jobs: Sequence[Job], progress: Mapping[str, Progress] | None = None
) -> ModeResult:
    """Trains the jobs in this process.

    Args:
        mode: one of `IN_PROCESS`.
        jobs: jobs with different names.
        progress: by name of the job, the listeners to its progress.
    """
    if mode == SEQUENTIAL:  # the memory of one is the next one's
        return in_a_row(Together([job], progress).train(mode) for job in jobs)
    return Together(jobs, progress).train(mode)


def in_a_row(runs: Iterable[ModeResult]) -> ModeResult:
    """Runs of one job each, one after another, as one result."""
    found: list[JobResult] = []
    waited = setup_s = total_s = 0.0
    for run in runs:
        (job,) = run.jobs
        found.append(replace(job, finished_s=waited + job.finished_s, memory=run.memory))
        waited += job.running_s
        setup_s += run.setup_s
        total_s += run.total_s
    needs = [job.memory for job in found if job.memory]
    memory = max(needs, key=lambda need: need.bytes, default=None)
    return ModeResult(SEQUENTIAL, tuple(found), setup_s, total_s, memory)


class Together:
    """Jobs that are set up in this process at the same time, and take steps in any mode.

    Args:
        jobs: jobs with different names.
        progress: by name of the job, the listeners to its progress.
    """

    def __init__(self, jobs: Sequence[Job], progress: Mapping[str, Progress] | None = None) -> None:
        self._meter = PeakMemory()
        began = time.perf_counter()
        self._runs = [JobRun(job, (progress or {}).get(job.name, SILENT)) for job in jobs]
        for run in self._runs:
            run.set_up()
        self._setup_s = time.perf_counter() - began

    def train(self, mode: str) -> ModeResult:
        """Takes all steps, and ends the trainings; the results have the models."""
        return self._drive(mode, JobRun.ended)

    def measure(self, mode: str, rounds: int) -> ModeResult:
        """Takes so many rounds of steps in a mode; other modes can follow."""
        for run in self._runs:
            run.stop_after(rounds)
        return self._drive(mode, JobRun.paused)

    def _drive(self, mode: str, result: Callable[[JobRun, float], JobResult]) -> ModeResult:
        alive = [run for run in self._runs if run.alive]
        start = time.perf_counter()
        for run in alive:
            run.begin()
        _WAYS[mode](alive)
        jobs = tuple(result(run, start) for run in self._runs)
        total_s = self._setup_s + time.perf_counter() - start
        return ModeResult(mode, jobs, self._setup_s, total_s, self._meter.read())


def _in_a_row(runs: list[JobRun]) -> None:
    """One job after another."""
    for run in runs:
        run.begin()  # the jobs before are no part of its steps
        run.run()


def _in_turns(runs: list[JobRun]) -> None:
    """As many steps of each job as its weight says, round by round, one at a time."""
    while runs:
        for turn in range(max(run.weight for run in runs)):
            for run in runs:
                if run.alive and run.weight > turn:
                    run.step()
        runs = [run for run in runs if run.alive]


# How late Ctrl-C may be heard, in seconds.
_HEARING_S = 1.0


def _in_threads(runs: list[JobRun]) -> None:
    """Each job as fast as it can, in threads."""
    # Ctrl-C may come between any two lines of Python, those of `threading` among them, and
    # leaves an Event locked for good and Thread.join in error (CPython, gh-90882). Queues in
    # C are safe.
    go: queue.SimpleQueue[None] = queue.SimpleQueue()
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work(run: JobRun) -> None:
        go.get()
        try:
            run.run()
        except BaseException as error:  # no other code would notice it
            run.fail(error)
        finally:
            ended.put(None)

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in runs]
    own = current_backend()
    randomness = own.random_state()  # jobs whose threads overlap restore each other's
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            go.put(None)
        running = len(threads)
        while running:
            # Not for ever: a signal just before a wait begins is seen when the wait ends.
            with suppress(queue.Empty):
                ended.get(timeout=_HEARING_S)
                running -= 1
    except BaseException:  # Ctrl-C arrives here
        for run in runs:
            run.training.abandon()
        for _ in threads:
            go.put(None)
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.01)  # a thread that computes while Python ends takes it down
        raise
    finally:
        own.set_random_state(randomness)


_WAYS: dict[str, Callable[[list[JobRun]], None]] = {
    SEQUENTIAL: _in_a_row,
    INTERLEAVED: _in_turns,
    THREADS: _in_threads,
}
