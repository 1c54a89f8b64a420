"""Chooses the way to train several jobs, by short runs in each way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfmp.colocation.job import Job
from tfmp.colocation.mode_names import AUTO, IN_PROCESS, PROCESSES, SEQUENTIAL
from tfmp.colocation.modes import Together, in_a_row
from tfmp.colocation.needs import why_too_much
from tfmp.colocation.processes import check_can_travel, run_in_processes
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine import devices, seconds_text
from tfmp.shared.progress import Progress

# A mode has to be faster by this factor to be worth its memory and its complications.
_WORTHWHILE = 1.05

# Short runs last at least so long for all jobs together, unless this takes too many steps.
_LONG_ENOUGH_S, _MOST_STEPS = 0.3, 300

# More steps than any short run takes.
_ENDLESS = 10**9

# Starting a Python process that imports TensorFlow takes seconds: about five, with two cores.
_WORTH_A_PROCESS_S = 20.0


def recommend(measured: Sequence[ModeResult]) -> tuple[str, str]:
    """The recommended mode and the reason, from short runs; in the first each job runs alone."""
    alone = measured[0]
    failed_alone = {job.name for job in alone.failed}
    usable = [row for row in measured if {job.name for job in row.failed} <= failed_alone]
    best = min(usable, key=lambda row: row.predicted_s or float("inf"))
    assert alone.predicted_s is not None
    assert best.predicted_s is not None
    gain = alone.predicted_s / best.predicted_s if best.predicted_s else 1.0
    if best is alone or gain < _WORTHWHILE:
        others = [row for row in usable if row is not alone]
        near = f" ({best.mode}: {gain:.2f})" if best is not alone else ""
        if len(alone.jobs) == 1:
            return alone.mode, "there is only one job"
        if not others:
            return alone.mode, "no other mode could run all jobs"
        return alone.mode, f"no other mode is {_WORTHWHILE:.2f} times as fast{near}"
    reason = (
        f"{gain:.2f} times as fast as one job after another: all steps take "
        f"{seconds_text(best.predicted_s)} instead of {seconds_text(alone.predicted_s)}"
    )
    return best.mode, reason


def predicted_seconds(
    result: ModeResult, alone: ModeResult, steps: Mapping[str, int], seconds: float
) -> float:
    """The seconds that all steps would take in a mode.

    While several jobs are left, each goes on as fast as it did in the short run; the last job goes
    on as fast as it does alone.

    Args:
        result: the short run in this mode.
        alone: the short run with each job alone.
        steps: number of steps of each job.
        seconds: the time before the steps.
    """
    if result.mode == SEQUENTIAL:
        return seconds + sum(steps[j.name] * (j.step_s or 0.0) for j in result.jobs)
    alone_s = {job.name: job.step_s for job in alone.jobs}
    left = {j.name: float(steps[j.name]) for j in result.jobs if j.step_s and not j.error}
    pace = {job.name: job.step_s or 0.0 for job in result.jobs}
    while left:
        if len(left) == 1:
            pace |= {name: alone_s[name] or pace[name] for name in left}
        until = min(count * pace[name] for name, count in left.items())
        seconds += until
        left = {n: c - until / pace[n] for n, c in left.items() if c * pace[n] > until * (1 + 1e-9)}
    return seconds


def measure(
    jobs: tuple[Job, ...], mode: str, steps: int, memory_limit: int | None, progress: Progress
) -> tuple[list[ModeResult], list[str]]:
    """Runs the jobs for a short time in each mode.

    Args:
        jobs: jobs with different names.
        mode: "auto" measures all modes; any other mode measures only each job alone.
        steps: least length of the short runs; 0 measures nothing.
        memory_limit: bytes that each process may use.
        progress: told of the stages.

    Returns:
        The short runs, the first with each job alone; and notes about modes without a measurement.
    """
    if not steps:
        return [], []
    progress("measuring each job alone")
    if mode == PROCESSES and devices.accelerators():
        # This process must not take the memory of the device that the others are to share.
        each = (run_in_processes([job], False, memory_limit) for job in _short(jobs, steps))
        return judged([in_a_row(each)], jobs), []
    endless = [job.measured(_ENDLESS) for job in jobs]
    alone = in_a_row(_alone(job, _rounds(jobs, steps), len(jobs)) for job in endless)
    if mode != AUTO or len(jobs) == 1:
        return judged([alone], jobs), []
    refusals = {mode: why_too_much(mode, alone) for mode in (*IN_PROCESS[1:], PROCESSES)}
    steps = _steps_worth_timing(alone, steps)
    probe = _Probe(endless, _rounds(jobs, steps), progress)
    fitting = [mode for mode in IN_PROCESS[1:] if not refusals[mode]]
    measured = [alone, *(probe.measure(name) for name in fitting)]
    if fitting:  # a busy machine slows short runs: each is taken again, the last one first
        again = [probe.measure(name) for name in reversed((SEQUENTIAL, *fitting))]
        measured = list(map(_faster, measured, reversed(again)))
    measured = judged(measured, jobs)
    notes = [f"{mode} was not measured: {refusals[mode]}" for mode in refusals if refusals[mode]]
    refused = refusals[PROCESSES] or _why_not_processes(jobs, measured)
    if refused:
        return measured, list(dict.fromkeys([*notes, f"processes was not measured: {refused}"]))
    del probe  # the memory of its models is the processes'
    progress(f"measuring mode {PROCESSES}")
    apart = run_in_processes(_short(jobs, steps), keep=False, memory_limit=memory_limit)
    return judged([*measured, apart], jobs), notes


class _Probe:
    """Short runs in several modes of jobs that are built and compiled once.

    Args:
        jobs: jobs that do not end by themselves.
        rounds: rounds of steps in each run.
        progress: told of the stages.
    """

    def __init__(self, jobs: Sequence[Job], rounds: int, progress: Progress) -> None:
        self._jobs, self._rounds, self._progress = jobs, rounds, progress
        self._together: Together | None = None

    def measure(self, mode: str) -> ModeResult:
        """A run in a mode. Jobs that fail after another mode's run get new models and data."""
        self._progress(f"measuring mode {mode}")
        used = self._together is not None
        self._together = self._together or _warm(self._jobs)
        result = self._together.measure(mode, self._rounds)
        if result.failed:
            self._together = None
            return self.measure(mode) if used else result
        return result


def _warm(jobs: Sequence[Job]) -> Together:
    """The jobs after a pause, from which the first step takes longer."""
    together = Together(jobs)
    together.measure(SEQUENTIAL, 1)
    return together


def _alone(job: Job, rounds: int, jobs: int) -> ModeResult:
    """A short run of one job; a longer one if it was too short for a clock on a busy machine."""
    together = _warm([job])
    short = together.measure(SEQUENTIAL, rounds)
    more = _steps_worth_timing(short, rounds, _LONG_ENOUGH_S / jobs)
    if more == rounds:
        return short
    long = together.measure(SEQUENTIAL, more)
    return short if long.failed else long  # data that gives its batches only once has an end


def judged(measured: Sequence[ModeResult], jobs: Sequence[Job]) -> list[ModeResult]:
    """Adds to short runs the seconds that all steps would take, and the slow-down of each job.

    Setting a job up is the same work in every mode of this process, but it takes longer in the
    first mode. Therefore all modes count the fastest set-up of a job, plus their own extra time.

    Args:
        measured: the short runs, the first with each job alone.
        jobs: the jobs with all their steps.
    """
    alone, steps = measured[0], {job.name: job.steps for job in jobs}
    setups: dict[str, float] = {}
    for row in measured:
        for job in row.jobs if row.mode != PROCESSES else ():
            if not job.error:
                setups[job.name] = min(job.setup_s, setups.get(job.name, job.setup_s))

    def setup_of(row: ModeResult) -> float:
        own = sum(job.setup_s for job in row.jobs)
        if row.mode == PROCESSES:
            return row.setup_s
        return sum(setups.values()) + max(0.0, row.setup_s - own)

    return [
        replace(
            compare(row, alone), predicted_s=predicted_seconds(row, alone, steps, setup_of(row))
        )
        for row in measured
    ]


def compare(result: ModeResult, alone: ModeResult) -> ModeResult:
    """Adds to each job the ratio of its time to its time without the other jobs."""
    step_s = {job.name: job.step_s for job in alone.jobs if not job.error}

    def compared(job: JobResult) -> JobResult:
        by_itself = (step_s.get(job.name) or 0.0) * job.timed_steps
        known = by_itself > 0 and job.finished_s > 0 and not job.error
        return replace(job, slowdown=job.finished_s / by_itself if known else None)

    return replace(result, jobs=tuple(compared(job) for job in result.jobs))


def _faster(row: ModeResult, again: ModeResult) -> ModeResult:
    """The faster run of a mode, with the memory of the first: later all jobs are in memory."""
    if _pace(again) >= _pace(row):
        return row
    both = zip(again.jobs, row.jobs, strict=True)
    jobs = tuple(replace(job, memory=first.memory) for job, first in both)
    return replace(again, jobs=jobs, memory=row.memory)


def _pace(row: ModeResult) -> tuple[int, float]:
    """Jobs that failed, and seconds that a step of each job takes."""
    return len(row.failed), sum(job.step_s or 0.0 for job in row.jobs)


def _rounds(jobs: Sequence[Job], steps: int) -> int:
    """Rounds that all jobs have steps for, so that all run all the time; two are for warming up."""
    return min([steps, *(max(1, job.steps // job.weight - 2) for job in jobs if job.steps > 1)])


def _short(jobs: Sequence[Job], steps: int) -> list[Job]:
    """The jobs with so many rounds and the step of the set-up."""
    return [job.measured(1 + _rounds(jobs, steps) * job.weight) for job in jobs]


def _steps_worth_timing(alone: ModeResult, steps: int, seconds: float = _LONG_ENOUGH_S) -> int:
    """The number of steps that last long enough for a clock on a busy machine."""
    paces = [job.step_s for job in alone.jobs if job.step_s and not job.error]
    return max(steps, min(_MOST_STEPS, int(seconds / sum(paces)))) if paces else steps


def _why_not_processes(jobs: tuple[Job, ...], measured: list[ModeResult]) -> str:
    try:
        for job in jobs:
            check_can_travel(job)
    except ValueError as error:
        return str(error)
    seconds = min(row.predicted_s or 0.0 for row in measured)
    if seconds < _WORTH_A_PROCESS_S:
        return f"the whole work takes {seconds_text(seconds)}, too little to start processes for"
    return ""
