"""colocate: several trainings on one device, each in its precision, in whatever way is fastest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import keras

from tfmp import hardware
from tfmp import policy as policies
from tfmp.colocation_job import Job, checked_jobs
from tfmp.colocation_modes import IN_PROCESS, run_in_process
from tfmp.colocation_processes import check_can_travel, run_in_processes
from tfmp.colocation_report import ColocateReport, JobResult, ModeResult
from tfmp.colocation_training import Progress
from tfmp.measuring import seconds_text
from tfmp.profiling_runs import without_retracing_advice

PROCESSES = "processes"
MODES = ("auto", *IN_PROCESS, PROCESSES)

# A mode that is faster by less than this is not worth its memory and its complications.
_WORTHWHILE = 1.05

# What short runs last at least, all jobs' steps together, unless that takes too many steps.
_LONG_ENOUGH_S, _MOST_STEPS = 0.3, 300

# Starting a Python process that imports TensorFlow takes seconds: about five, with two cores.
_WORTH_A_PROCESS_S = 20.0


def colocate(
    jobs: Iterable[Job],
    mode: str = "auto",
    *,
    measure_steps: int = 10,
    train: bool = True,
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> ColocateReport:
    """Trains several models on one device, each in its own precision.

    Each job ends with the weights that it would have alone, in every mode: it has its own seeds,
    policy, floatx, callbacks and checkpoints. A job that raises or runs out of memory ends alone.

    Args:
        jobs: what to train.
        mode: "sequential" (one after another), "interleaved" (a step each in turn), "threads",
            "processes", "fused" (the steps of all jobs as one compiled function), or "auto", which
            measures short runs in each and takes the fastest.
        measure_steps: least length of those short runs, which take more steps where that is less
            than a third of a second; with a named mode each job is measured alone only, to say how
            far it was slowed down. 0 measures nothing, for a named mode.
        train: whether the jobs are trained; False only measures and recommends.
        memory_limit: in mode "processes", bytes that each process may use: of the device's memory,
            or of the computer's where there is only the CPU.
        progress: called after every step with the job's name, steps taken and all its steps.

    Returns:
        The report, for `print` or `to_dict`; `report[name]` is a job's result, with its model.

    Raises:
        TypeError: what is passed is of the wrong kind.
        ValueError: an argument is out of range, two jobs have the same name, or a job cannot be
            sent to another process as mode "processes" needs it.
    """
    policies.check_backend()
    found = checked_jobs(jobs)
    _check(mode, measure_steps, train, memory_limit)
    _check_wide(found)
    if mode == PROCESSES:
        for job in found:
            check_can_travel(job)
    with without_retracing_advice():
        measured, notes = _measure(found, mode, measure_steps, memory_limit)
        reason = f"asked for by name; {_compared(mode, measured)}" if mode != "auto" else ""
        if mode == "auto":
            mode, reason = recommend(measured)
        run = _run(mode, found, True, memory_limit, progress) if train else None
    if run is not None and measured:
        run = _with_slowdowns(run, measured[0], found)
    return ColocateReport(
        device=hardware.devices()[0],
        backend=keras.backend.backend(),
        mode=mode,
        reason=reason,
        measured=tuple(measured),
        run=run,
        notes=tuple(notes),
    )


def recommend(measured: Sequence[ModeResult]) -> tuple[str, str]:
    """The mode to take, and why, by short runs of which the first has each job alone."""
    alone = measured[0]
    failed_alone = {job.name for job in alone.failed}
    usable = [row for row in measured if {job.name for job in row.failed} <= failed_alone]
    best = min(usable, key=lambda row: row.predicted_s or float("inf"))
    assert alone.predicted_s is not None
    assert best.predicted_s is not None
    gain = alone.predicted_s / best.predicted_s if best.predicted_s else 1.0
    if best is alone or gain < _WORTHWHILE:
        others = [row for row in usable if row is not alone]
        near = f" (the next, {best.mode}, by {gain:.2f} times)" if best is not alone else ""
        if len(alone.jobs) == 1:
            return alone.mode, "there is one job"
        if not others:
            return alone.mode, "no other mode could run all jobs"
        return alone.mode, f"no mode is faster by {_WORTHWHILE:.2f} times or more{near}"
    reason = (
        f"{gain:.2f} times as fast as one after another: all steps in "
        f"{seconds_text(best.predicted_s)} instead of {seconds_text(alone.predicted_s)}"
    )
    if best.fairness is not None:
        reason += f", fairness {best.fairness:.2f}"
    return best.mode, reason


def predicted_seconds(result: ModeResult, alone: ModeResult, steps: Mapping[str, int]) -> float:
    """What all steps would take in a mode, from a short run in it and one of each job alone.

    While several jobs are left, each goes on as fast as it did in the short run; the last one left
    goes on as fast as alone.

    Args:
        result: the short run.
        alone: each job alone.
        steps: how many each job has to take.
    """
    if result.mode == "sequential":
        return result.setup_s + sum(steps[j.name] * (j.step_s or 0.0) for j in result.jobs)
    alone_s = {job.name: job.step_s for job in alone.jobs}
    left = {j.name: float(steps[j.name]) for j in result.jobs if j.step_s and not j.error}
    pace = {job.name: job.step_s or 0.0 for job in result.jobs}
    seconds = result.setup_s
    while left:
        if len(left) == 1:
            pace |= {name: alone_s[name] or pace[name] for name in left}
        until = min(count * pace[name] for name, count in left.items())
        seconds += until
        left = {n: c - until / pace[n] for n, c in left.items() if c * pace[n] > until * (1 + 1e-9)}
    return seconds


def _measure(
    jobs: tuple[Job, ...], mode: str, steps: int, memory_limit: int | None
) -> tuple[list[ModeResult], list[str]]:
    """Short runs, the first with each job alone; and what was not measured."""
    if not steps:
        return [], []
    short = _short(jobs, steps)
    if mode == PROCESSES and hardware.accelerators():
        # This process must not take the memory of the device that the others are to share.
        alone = _alone_in_processes(short, memory_limit)
        return [_judged(alone, alone, jobs)], []
    alone = run_in_process("sequential", short, keep=False)
    more = _steps_worth_timing(alone, steps)
    if _short(jobs, more)[0].steps > short[0].steps:
        short = _short(jobs, more)
        alone = run_in_process("sequential", short, keep=False)
    measured = [_judged(alone, alone, jobs)]
    notes: list[str] = []
    if mode != "auto" or len(jobs) == 1:
        return measured, notes
    for other in IN_PROCESS:
        if other != "sequential":
            measured.append(_judged(run_in_process(other, short, keep=False), alone, jobs))
    refused = _why_not_processes(jobs, measured)
    if refused:
        notes.append(f"processes was not measured: {refused}")
    else:
        result = run_in_processes(short, keep=False, memory_limit=memory_limit)
        measured.append(_judged(result, alone, jobs))
    return measured, notes


def _short(jobs: tuple[Job, ...], steps: int) -> list[Job]:
    """Runs of one length, so that all jobs are there all the time; one step is set-up."""
    length = min([steps + 1, *(job.steps for job in jobs if job.steps > 1)])
    return [job.measured(length) for job in jobs]


def _alone_in_processes(jobs: Sequence[Job], memory_limit: int | None) -> ModeResult:
    """One after another, each in a process of its own."""
    runs = [run_in_processes([job], False, memory_limit) for job in jobs]
    needs = [run.memory for run in runs if run.memory is not None]
    return ModeResult(
        "sequential",
        tuple(run.jobs[0] for run in runs),
        setup_s=sum(run.setup_s for run in runs),
        total_s=sum(run.total_s for run in runs),
        memory=max(needs, key=lambda memory: memory.bytes, default=None),
    )


def _steps_worth_timing(alone: ModeResult, steps: int) -> int:
    """As many steps as last long enough for a clock on a busy machine."""
    paces = [job.step_s for job in alone.jobs if job.step_s and not job.error]
    return max(steps, min(_MOST_STEPS, int(_LONG_ENOUGH_S / sum(paces)))) if paces else steps


def _why_not_processes(jobs: tuple[Job, ...], measured: list[ModeResult]) -> str:
    try:
        for job in jobs:
            check_can_travel(job)
    except ValueError as error:
        return str(error)
    seconds = min(row.predicted_s or 0.0 for row in measured)
    if seconds < _WORTH_A_PROCESS_S:
        return f"all of the work takes {seconds_text(seconds)}, hardly longer than starting them"
    return ""


def _judged(result: ModeResult, alone: ModeResult, jobs: Sequence[Job]) -> ModeResult:
    steps = {job.name: job.steps for job in jobs}
    predicted = predicted_seconds(result, alone, steps)
    return replace(_with_slowdowns(result, alone, jobs), predicted_s=predicted)


def _with_slowdowns(result: ModeResult, alone: ModeResult, jobs: Sequence[Job]) -> ModeResult:
    """Adds how much later each job was done than it would have been alone."""
    step_s = {job.name: job.step_s for job in alone.jobs if not job.error}

    def judged(job: JobResult) -> JobResult:
        by_itself = (step_s.get(job.name) or 0.0) * job.timed_steps
        known = by_itself > 0 and job.finished_s > 0 and not job.error
        return replace(job, slowdown=job.finished_s / by_itself if known else None)

    return replace(result, jobs=tuple(judged(job) for job in result.jobs))


def _run(
    mode: str,
    jobs: Sequence[Job],
    keep: bool,
    memory_limit: int | None,
    progress: Progress | None,
) -> ModeResult:
    if mode == PROCESSES:
        return run_in_processes(jobs, keep, memory_limit, progress)
    return run_in_process(mode, jobs, keep, progress)


def _compared(mode: str, measured: list[ModeResult]) -> str:
    if not measured:
        return "nothing was measured"
    return "mode='auto' compares it with the others"


def _check(mode: object, measure_steps: object, train: object, memory_limit: object) -> None:
    if mode not in MODES:
        raise ValueError(
            f"mode expects one of {', '.join(map(repr, MODES))}; received {mode!r} of type "
            f"{type(mode).__name__}. 'auto' measures them and takes the fastest."
        )
    least = 1 if mode == "auto" or not train else 0
    if not isinstance(measure_steps, int) or isinstance(measure_steps, bool):
        raise TypeError(
            "measure_steps expects a whole number, received "
            f"{measure_steps!r} of type {type(measure_steps).__name__}."
        )
    if measure_steps < least:
        why = "'auto' chooses by measuring" if mode == "auto" else "nothing would be done"
        raise ValueError(
            f"measure_steps expects at least {least} here ({why}), received {measure_steps!r}."
        )
    if memory_limit is not None and (not isinstance(memory_limit, int) or memory_limit < 2**20):
        raise ValueError(
            f"memory_limit expects bytes, at least 1048576 (1 MiB), received {memory_limit!r}."
        )
    if memory_limit is not None and mode not in ("auto", PROCESSES):
        raise ValueError(
            f"memory_limit bounds the processes of mode='processes'; mode {mode!r} has none. "
            "Jobs in one process share its memory."
        )


def _check_wide(jobs: Sequence[Job]) -> None:
    """JAX makes float32 of float64, without a word, unless it is told not to."""
    wide = [job.name for job in jobs if job.policy == "float64"]
    if not wide or keras.backend.backend() != "jax":
        return
    import jax

    if not jax.config.jax_enable_x64:
        raise ValueError(
            f"Job {wide[0]!r} expects JAX's 64-bit types, which are off. Set the environment "
            "variable JAX_ENABLE_X64=1, or call jax.config.update('jax_enable_x64', True) first."
        )
