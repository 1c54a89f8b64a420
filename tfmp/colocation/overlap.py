"""How far jobs side by side overlap, and how busy each of them keeps the device alone."""

import os
from collections.abc import Sequence

from tfmp.colocation.job import Job
from tfmp.colocation.mode_names import PROCESSES, SEQUENTIAL
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine import Device
from tfmp.shared.wording import joined

# Gains and losses below this share may be noise of short runs.
_NOTABLE = 0.05

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
    """Sentences about a mode: how far the jobs overlap in it, and what each needs of the device.

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
    told = [said, _on_a_card(alone.jobs) if device.kind == "gpu" else _on_cores(alone.jobs)]
    shared = len({job.device for job in jobs}) < len(jobs)
    if device.kind == "gpu" and row.mode == PROCESSES and shared and not mps:
        told.append(
            "Without NVIDIA's Multi-Process Service the processes take turns on the card: start it "
            "with nvidia-cuda-mps-control -d"
        )
    return ". ".join(filter(None, told))


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _on_cores(alone: Sequence[JobResult]) -> str:
    busy = [f"{job.busy_cores:.1f}" for job in alone if job.busy_cores is not None]
    return f"Alone the jobs keep {joined(busy)} of {cores()} cores busy" if len(busy) > 1 else ""


def _on_a_card(alone: Sequence[JobResult]) -> str:
    uses = [job.gpu for job in alone if job.gpu and job.gpu.samples >= _ENOUGH_SAMPLES]
    kernels = [f"{use.busy:.0%}" for use in uses if use.busy is not None]
    memory = [f"{use.memory_busy or 0.0:.0%}" for use in uses]
    if len(kernels) < len(alone):
        return ""
    return (
        f"Alone a kernel of the jobs runs {joined(kernels)} of the time, and the card's memory is "
        f"busy {joined(memory)} of it"
    )
