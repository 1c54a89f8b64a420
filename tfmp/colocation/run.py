"""colocate: trains several models on one device, each in its precision, in the fastest way."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from tfmp.colocation.choice import compare, measure, recommend
from tfmp.colocation.job import Job, checked_jobs
from tfmp.colocation.mode_names import AUTO, INTERLEAVED, MODES, PROCESSES, THREADS
from tfmp.colocation.modes import run_in_process
from tfmp.colocation.needs import why_too_much
from tfmp.colocation.processes import check_can_travel, check_job_devices, run_in_processes
from tfmp.colocation.report import ColocateReport
from tfmp.machine import devices, mps_runs
from tfmp.shared.arguments import check_choice, check_count
from tfmp.shared.backend import (
    check_64_bits,
    current_backend,
    without_retracing_advice,
)
from tfmp.shared.progress import SILENT, OnCount, OnStage, Progress, listening

_TO_FIT = "Choose mode 'sequential', smaller batches, or fewer jobs."


def colocate(
    jobs: Iterable[Job],
    mode: str = "auto",
    *,
    measure_steps: int = 10,
    train: bool = True,
    memory_limit: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    stage: OnStage = None,
    count: OnCount = None,
) -> ColocateReport:
    """Trains several models on one device, each in its own precision.

    Each job ends with the weights that it would have alone, in every mode: it has its own seeds,
    policy, floatx, callbacks and checkpoints. Only on PyTorch dropout without a seed differs in
    mode "threads": all threads share its generator. If a job raises an error or runs out of memory,
    only this job ends.

    Args:
        jobs: the jobs to train.
        mode: "sequential" (one after another), "interleaved" (a step each in turn), "threads",
            "processes", or "auto", which measures short runs in each mode and takes the fastest.
        measure_steps: least length of those short runs; they take more steps if these last less
            than a third of a second. With a named mode each job is measured only alone, to find its
            slow-down. 0 measures nothing; it needs a named mode.
        train: whether the jobs are trained; False only measures and recommends.
        memory_limit: in mode "processes", bytes that each process may use: of the device's memory,
            or of the computer's memory if there is only the CPU.
        progress: called after every step with the job's name, its steps so far and all its steps.
        stage: called with a short text when a stage begins.
        count: called after every step with the number of steps taken, and of all jobs' steps.

    Returns:
        The report; print it, or take it to JSON with `to_dict`. `report[name]` is a job's result
        with its model.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range, two jobs have the same name, a job cannot be sent
            to another process as mode "processes" needs it, the jobs do not fit into the free
            memory together, a card is not there, or the mode cannot keep to the jobs' weights.
    """
    current_backend()  # raises for one that is not supported
    found = checked_jobs(jobs)
    _check(mode, measure_steps, train, memory_limit)
    on_their_own = any(job.device for job in found)
    if on_their_own:
        check_job_devices(found, mode)
        mode = PROCESSES
    _check_jobs(found, mode)
    in_rounds = mode == AUTO and _weights_differ(found)
    mode = INTERLEAVED if in_rounds else mode
    to_choose = mode == AUTO
    with listening(stage, count) as told, without_retracing_advice():
        measured, notes = measure(found, mode, measure_steps, memory_limit, told)
        if to_choose:
            mode, reason = recommend(measured)
        elif in_rounds:
            reason = "it alone keeps to the weights of the jobs"
        elif on_their_own:
            reason = "the jobs name their cards"
        else:
            others = "mode='auto' compares it with the others" if measured else "none was measured"
            reason = f"asked for by name; {others}"
            refusal = why_too_much(mode, measured[0]) if measured else ""
            if refusal:
                raise ValueError(f"{refusal[0].upper()}{refusal[1:]}. {_TO_FIT}")
        told(f"training in mode {mode}")
        listeners, run = _by_job(found, progress, told), None
        if train and mode == PROCESSES:
            run = run_in_processes(found, True, memory_limit, listeners)
        elif train:
            run = run_in_process(mode, found, listeners)
    device = devices.visible_devices()[0]
    if measured and run is not None:
        run = compare(run, measured[0])
    if measured and device.kind == "cpu" and len(found) > 1:
        notes.append("measured on a CPU: on a GPU another mode may be the fastest")
    return ColocateReport(
        device=device,
        backend=current_backend().name,
        mode=mode,
        reason=reason,
        measured=tuple(measured),
        run=run,
        notes=(*notes, *_of_mode(mode, found, device)),
    )


def _of_mode(mode: str, jobs: Sequence[Job], device: devices.Device) -> Iterator[str]:
    """What to know of a mode."""
    own = current_backend()
    if mode == THREADS and own.threads_share_randomness:
        yield (
            f"{mode}: {own.title} has one generator for all threads, so that dropout without a "
            "seed differs from a run alone"
        )
    shared = len({job.device for job in jobs}) < len(jobs)
    if mode == PROCESSES and device.kind == "gpu" and shared and not mps_runs():
        yield (
            "without NVIDIA's Multi-Process Service the processes take turns on the card: start it "
            "with nvidia-cuda-mps-control -d"
        )


def _weights_differ(jobs: Sequence[Job]) -> bool:
    return len({job.weight for job in jobs}) > 1


def _check_jobs(jobs: Sequence[Job], mode: str) -> None:
    for job in jobs:
        if job.policy == "float64":
            check_64_bits(f"Job {job.name!r}")
        if mode == PROCESSES:
            check_can_travel(job)
    if _weights_differ(jobs) and mode not in (AUTO, INTERLEAVED):
        raise ValueError(
            f"Jobs with different weights take their steps in rounds, but mode {mode!r} has no "
            f"rounds: choose mode {INTERLEAVED!r}, or leave weight out."
        )


def _by_job(
    jobs: Sequence[Job], progress: Callable[[str, int, int], None] | None, told: Progress
) -> dict[str, Progress]:
    """For each job, by name, a `Progress` that tells functions of all jobs which job it is."""
    if progress is None and told is SILENT:
        return {}
    taken = dict.fromkeys((job.name for job in jobs), 0)
    steps = sum(job.steps for job in jobs)

    def counted(name: str, done: int, total: int | None) -> None:
        taken[name] = done
        told.count(sum(taken.values()), steps)
        if progress is not None:
            progress(name, done, total or 0)  # a job knows its steps

    return {job.name: Progress(counted=partial(counted, job.name)) for job in jobs}


def _check(mode: object, measure_steps: object, train: object, memory_limit: object) -> None:
    check_choice("mode", mode, MODES, "'auto' measures all of them and takes the fastest.")
    hint = "" if train else "With train=False nothing would be done."
    hint = "Mode 'auto' chooses by measuring." if mode == AUTO else hint
    check_count("measure_steps", measure_steps, 1 if hint else 0, hint)
    if memory_limit is not None:
        check_count("memory_limit", memory_limit, 2**20, "It is a number of bytes.")
    if memory_limit is not None and mode not in (AUTO, PROCESSES):
        raise ValueError(
            f"memory_limit bounds the processes of mode 'processes', but mode {mode!r} has no "
            "processes: its jobs share the memory of this one. Leave memory_limit out."
        )
