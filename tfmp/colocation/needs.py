"""An estimate of the memory that jobs need together, before they start together."""

from tfmp.colocation.mode_names import PROCESSES, SEQUENTIAL
from tfmp.colocation.report import JobResult, ModeResult
from tfmp.machine import bytes_text, free_memory
from tfmp.shared.wording import joined


def why_too_much(mode: str, alone: ModeResult) -> str:
    """The reason why the jobs do not fit in a mode; empty if they do, or if nobody knows.

    Args:
        mode: the mode that they would share the device in.
        alone: short runs with each job alone: weights, optimizer state and measured batches.
    """
    needs = {job.name: _of_job(job) for job in alone.jobs if not job.error}
    needed, free = sum(needs.values()), free_memory(in_this_process=mode != PROCESSES)
    if mode == SEQUENTIAL or not all(needs.values()) or free is None or needed <= free:
        return ""
    each = joined([f"{name} {bytes_text(need)}" for name, need in needs.items()])
    return (
        f"mode {mode!r} needs about {bytes_text(needed)} at the same time ({each}), but "
        f"{bytes_text(free)} are free"
    )


def _of_job(job: JobResult) -> int:
    """What a run alone took, and at least its weights and optimizer state; 0 if not known."""
    return max(job.memory.bytes if job.memory else 0, job.state_bytes)
