"""An estimate of the memory that jobs need together, before they start together."""

from tfmp.colocation.mode_names import PROCESSES, SEQUENTIAL
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine import bytes_text, free_memory
from tfmp.shared.wording import joined


def needed_bytes(mode: str, alone: ModeResult) -> int | None:
    """Bytes that all jobs need at the same time; None if a job's need is not known.

    Args:
        mode: the mode that they would share the device in.
        alone: short runs with each job alone: weights, optimizer state and measured batches.
    """
    if mode == SEQUENTIAL:
        return None
    needs = [_of_job(job) for job in alone.jobs if not job.error]
    if not needs or any(need is None for need in needs):
        return None
    return sum(need or 0 for need in needs)


def why_too_much(mode: str, alone: ModeResult) -> str:
    """The reason why the jobs do not fit in a mode; empty if they do, or if nobody knows."""
    needed = needed_bytes(mode, alone)
    free = free_memory(in_this_process=mode != PROCESSES)
    if needed is None or free is None or needed <= free:
        return ""
    each = joined([f"{job.name} {bytes_text(_of_job(job) or 0)}" for job in alone.jobs])
    return (
        f"mode {mode!r} needs about {bytes_text(needed)} at the same time ({each}), but "
        f"{bytes_text(free)} are free"
    )


def _of_job(job: JobResult) -> int | None:
    """What a run alone took, and at least its weights and optimizer state."""
    if job.memory is None:
        return job.state_bytes or None
    return max(job.memory.bytes, job.state_bytes)
