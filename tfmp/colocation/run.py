"""colocate: trains several models on one device, each in its precision, in the fastest way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import keras

from tfmp.colocation.choice import compare, measure, recommend, weights_differ
from tfmp.colocation.job import Job, checked_jobs
from tfmp.colocation.mode_names import AUTO, IN_ROUNDS, MODES, PROCESSES
from tfmp.colocation.modes import run_in_process
from tfmp.colocation.processes import check_can_travel, run_in_processes
from tfmp.colocation.report import ColocateReport, ModeResult
from tfmp.machine import devices
from tfmp.shared.arguments import check_choice, check_count, is_whole_number
from tfmp.shared.backend import check_64_bits, check_backend, without_retracing_advice
from tfmp.shared.progress import Progress, Told
from tfmp.shared.wording import shown


def colocate(
    jobs: Iterable[Job],
    mode: str = "auto",
    *,
    measure_steps: int = 10,
    train: bool = True,
    memory_limit: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ColocateReport:
    """Trains several models on one device, each in its own precision.

    Each job ends with the weights that it would have alone, in every mode: it has its own seeds,
    policy, floatx, callbacks and checkpoints. If a job raises an error or runs out of memory, only
    this job ends.

    Args:
        jobs: the jobs to train.
        mode: "sequential" (one after another), "interleaved" (a step each in turn), "threads",
            "processes", "fused" (the steps of all jobs as one compiled function), or "auto", which
            measures short runs in each mode and takes the fastest.
        measure_steps: least length of those short runs; they take more steps if these last less
            than a third of a second. With a named mode each job is measured only alone, to find its
            slow-down. 0 measures nothing; it needs a named mode.
        train: whether the jobs are trained; False only measures and recommends.
        memory_limit: in mode "processes", bytes that each process may use: of the device's memory,
            or of the computer's memory if there is only the CPU.
        progress: called after every step with the job's name, its steps so far and all its steps.

    Returns:
        The report; print it, or take it to JSON with `to_dict`. `report[name]` is a job's result
        with its model.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range, two jobs have the same name, or a job cannot be
            sent to another process as mode "processes" needs it.
    """
    check_backend()
    found = checked_jobs(jobs)
    _check(mode, measure_steps, train, memory_limit)
    for job in found:
        if job.policy == "float64":
            check_64_bits(f"Job {job.name!r}")
    if weights_differ(found) and mode not in (AUTO, *IN_ROUNDS):
        raise ValueError(
            f"Jobs with different weights take their steps in rounds, but mode {mode!r} has no "
            f"rounds: choose mode {' or '.join(map(repr, IN_ROUNDS))}, or leave weight out."
        )
    if mode == PROCESSES:
        for job in found:
            check_can_travel(job)
    with without_retracing_advice():
        measured, notes = measure(found, mode, measure_steps, memory_limit)
        reason = f"asked for by name; {_compared(mode, measured)}" if mode != AUTO else ""
        if mode == AUTO:
            mode, reason = recommend(measured, weights_differ(found))
        run = _run(mode, found, memory_limit, _by_job(found, progress)) if train else None
    if run is not None and measured:
        run = compare(run, measured[0])
    device = devices.visible_devices()[0]
    if measured and device.kind == "cpu" and len(found) > 1:
        notes.append("measured on a CPU: on a GPU another mode may be the fastest")
    return ColocateReport(
        device=device,
        backend=keras.backend.backend(),
        mode=mode,
        reason=reason,
        measured=tuple(measured),
        run=run,
        notes=tuple(notes),
    )


def _by_job(
    jobs: Sequence[Job], progress: Callable[[str, int, int], None] | None
) -> dict[str, Progress]:
    """For each job, by name, a `Progress` that tells a function of all jobs which job it is."""
    if progress is None:
        return {}

    def counted(name: str, done: int, total: int | None) -> None:
        progress(name, done, total or 0)  # a job knows its steps

    return {job.name: Told(counted=partial(counted, job.name)) for job in jobs}


def _run(
    mode: str, jobs: Sequence[Job], memory_limit: int | None, progress: Mapping[str, Progress]
) -> ModeResult:
    if mode == PROCESSES:
        return run_in_processes(jobs, True, memory_limit, progress)
    return run_in_process(mode, jobs, True, progress)


def _compared(mode: str, measured: list[ModeResult]) -> str:
    if not measured:
        return "no mode was measured"
    return "mode='auto' compares it with the others"


def _check(mode: object, measure_steps: object, train: object, memory_limit: object) -> None:
    check_choice("mode", mode, MODES, "'auto' measures all of them and takes the fastest.")
    if not is_whole_number(measure_steps):
        raise TypeError(f"measure_steps expects a whole number; received {shown(measure_steps)}.")
    if mode == AUTO:
        check_count("measure_steps", measure_steps, hint="Mode 'auto' chooses by measuring.")
    elif not train:
        check_count("measure_steps", measure_steps, hint="With train=False nothing would be done.")
    else:
        check_count("measure_steps", measure_steps, least=0)
    if memory_limit is not None:
        check_count("memory_limit", memory_limit, 2**20, "It is a number of bytes.")
    if memory_limit is not None and mode not in (AUTO, PROCESSES):
        raise ValueError(
            f"memory_limit bounds the processes of mode 'processes', but mode {mode!r} has no "
            "processes: its jobs share the memory of this one. Leave memory_limit out."
        )
