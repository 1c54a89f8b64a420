"""Why jobs side by side do or do not overlap: cores, streams, time slices, multiprocessors."""

import os
from collections.abc import Sequence

from tfmp.colocation.job import Job
from tfmp.colocation.mode_names import FUSED, INTERLEAVED, PROCESSES, SEQUENTIAL, THREADS
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine import Device
from tfmp.shared.wording import joined

# Gains and losses below this share may be noise of short runs.
_NOTABLE = 0.05

# Of all cores, or of the time of a card's memory; from here on there is no more to give.
_FULL = 0.9

# A card is judged by at least so many samples.
_ENOUGH_SAMPLES = 5


def overlap(row: ModeResult, alone: ModeResult) -> float | None:
    """The seconds of all steps alone, divided by the seconds that they take together.

    1 means that nothing overlaps, the number of jobs that they do not disturb each other.
    """
    step_s = {job.name: job.step_s for job in alone.jobs if job.step_s and not job.error}
    jobs = [job for job in row.jobs if not job.error and job.timed_steps and job.name in step_s]
    together = max((job.finished_s for job in jobs), default=0.0)
    if row.mode == SEQUENTIAL or len(jobs) < 2 or not together:
        return None
    return sum(step_s[job.name] * job.timed_steps for job in jobs) / together


def explain(
    row: ModeResult, alone: ModeResult, device: Device, mps: bool, jobs: Sequence[Job]
) -> str:
    """A sentence about a mode: how far the jobs overlap in it, and the reason.

    Args:
        row: the run in this mode.
        alone: the run with each job alone.
        device: the device that they share.
        mps: whether NVIDIA's Multi-Process Service runs.
        jobs: the jobs.
    """
    found = overlap(row, alone)
    if found is None:
        return ""
    if found >= 1 + _NOTABLE:
        said = f"the steps overlap: {found:.2f} seconds of work in a second"
    elif found <= 1 - _NOTABLE:
        said = f"the steps slow each other down: {found:.2f} seconds of work in a second"
    else:
        said = "the steps do not overlap"
    if device.kind == "gpu":
        return f"{said}. {_on_a_card(row.mode, alone.jobs, mps, jobs)}"
    return f"{said}. {_on_cores(row.mode, alone.jobs)}"


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _on_cores(mode: str, alone: Sequence[JobResult]) -> str:
    if mode == INTERLEAVED:
        return "One step runs at a time: taking turns costs time, and saves nothing on a CPU"
    busy = [job.busy_cores for job in alone if job.busy_cores is not None]
    if len(busy) < 2:
        return "How many cores a job keeps busy is not known"
    each = joined([f"{count:.1f}" for count in busy])
    there = cores()
    if sum(busy) > _FULL * there:
        more = sum(busy) > (1 + _NOTABLE) * there
        left = "together they need more cores than there are" if more else "hardly a core is free"
        return f"Alone the jobs keep {each} of {there} cores busy: {left}"
    if mode == THREADS:
        return (
            f"Alone the jobs keep {each} of {there} cores busy: cores are left, but Python starts "
            "the steps of one thread at a time"
        )
    return f"Alone the jobs keep {each} of {there} cores busy: cores are left"


def _on_a_card(mode: str, alone: Sequence[JobResult], mps: bool, jobs: Sequence[Job]) -> str:
    if mode == PROCESSES and len({job.device for job in jobs}) == len(jobs):
        return "Each job has a card or MIG instance of its own"
    if mode == PROCESSES and not mps:
        return (
            "Without NVIDIA's Multi-Process Service the processes take turns on the card, in time "
            "slices: start it with nvidia-cuda-mps-control -d"
        )
    if mode == FUSED:
        return "One program on one stream: its kernels follow each other without waiting for Python"
    if mode in (INTERLEAVED, THREADS):
        return (
            "All kernels of a process are on one stream, one after another: only the gaps between "
            f"them can be filled{_gaps(alone)}"
        )
    return f"Kernels run at the same time as far as the card has room{_room(alone)}"


def _gaps(alone: Sequence[JobResult]) -> str:
    busy = [job.gpu.busy for job in alone if job.gpu and job.gpu.busy is not None]
    if not _watched(alone):
        return ""
    return f"; alone a kernel runs {joined([f'{share:.0%}' for share in busy])} of the time"


def _room(alone: Sequence[JobResult]) -> str:
    if not _watched(alone):
        return ""
    memory = sum(job.gpu.memory_busy or 0.0 for job in alone if job.gpu)
    if memory >= _FULL:
        return f"; its memory is the limit: alone the jobs keep it busy {memory:.0%} together"
    busy = sum(job.gpu.busy or 0.0 for job in alone if job.gpu)
    if busy >= _FULL:
        return (
            f"; its multiprocessors are shared: alone the jobs have a kernel running {busy:.0%} of "
            "the time together"
        )
    return "; alone the jobs leave it idle for most of the time"


def _watched(alone: Sequence[JobResult]) -> bool:
    return all(
        job.gpu and job.gpu.busy is not None and job.gpu.samples >= _ENOUGH_SAMPLES for job in alone
    )
