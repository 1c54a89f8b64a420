"""Mode "processes": each job in its own process, with its own memory."""

import contextlib
import multiprocessing
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from tfmp.colocation.mode_names import AUTO, PROCESSES
from tfmp.machine import (
    bytes_text,
    deaf_to_ctrl_c,
    end_with_parent,
    ending_with_parent,
    variables_set,
    why_it_ended,
)
from tfmp.shared.atomic_file import remove_abandoned
from tfmp.shared.backend import current_backend
from tfmp.shared.framework_start import held_back
from tfmp.shared.progress import SILENT, Progress
from tfmp.shared.wording import first_line, joined

if TYPE_CHECKING:  # a child imports this module before it may import Keras
    from tfmp.colocation.job import Job
    from tfmp.colocation.report import JobResult, ModeResult
    from tfmp.machine import Memory

# The messages of a child: (_READY, None), (_STEP, (done, all)), (_DONE, (JobResult, Memory)).
_READY, _STEP, _DONE = "ready", "step", "done"

# A process that was told to end, or has sent its last message, may take so long to end.
_PATIENCE_S = 30.0


def check_job_devices(jobs: "Sequence[Job]", mode: str) -> None:
    """Accepts jobs that name their cards: each process sees only the card of its own job.

    Raises:
        ValueError: the mode has one process, or the driver knows no such card.
    """
    from tfmp.machine import read_nvidia

    if mode not in (AUTO, PROCESSES):
        raise ValueError(
            f"Jobs that name a device need a process for each; mode {mode!r} has one for all. "
            f"Choose mode {PROCESSES!r}, or leave device out."
        )
    nvidia = read_nvidia()
    known = [
        name
        for card in nvidia.cards
        for name in (card.mig_uuids if card.mig else (str(card.index), card.uuid))
    ]
    for job in jobs:
        if job.device and job.device not in known:
            there = f"it knows {joined(known)}" if known else nvidia.error or "there is no card"
            raise ValueError(
                f"Job {job.name!r} names the device {job.device!r}, which NVIDIA's driver does not "
                f"know: {there}. nvidia-smi -L lists cards and MIG instances."
            )


def check_can_travel(job: "Job") -> None:
    """Accepts a job that can be sent to another process.

    Raises:
        ValueError: it cannot be sent.
    """
    try:
        pickle.dumps(job)
    except Exception as error:
        raise ValueError(
            f"Mode 'processes' expects jobs that can be sent to another process; job {job.name!r} "
            f"cannot be sent: {first_line(error)}. Define its functions at the top of a module, or "
            "choose another mode."
        ) from error


def run_in_processes(
    jobs: "Sequence[Job]",
    keep: bool,
    memory_limit: int | None = None,
    progress: Mapping[str, Progress] | None = None,
) -> "ModeResult":
    """Trains each job in its own process.

    Args:
        jobs: jobs with different names that can be pickled.
        keep: whether trained weights are brought back.
        memory_limit: bytes of the device that each process may use; without a device, bytes of the
            computer's memory.
        progress: by name of the job, the listeners to its progress.
    """
    from tfmp.colocation.report import ModeResult
    from tfmp.machine import Memory

    for job in jobs:
        check_can_travel(job)
    began = time.perf_counter()
    children: list[_Child] = []
    try:
        for job in jobs:
            told = (progress or {}).get(job.name, SILENT)
            children.append(_Child(job, memory_limit, keep, told))
        _listen(children, until=_READY)
        start = time.perf_counter()
        for child in children:
            child.go()
        _listen(children, until=_DONE)
        total = time.perf_counter() - began
    finally:
        for child in children:
            child.stop()
        for child in children:
            child.end()
            if child.job.checkpoint is not None:
                remove_abandoned(Path(child.job.checkpoint))
    found = [child.memory for child in children if child.memory is not None]
    memory = Memory(sum(m.bytes for m in found), found[0].source) if found else None
    return ModeResult(
        PROCESSES, tuple(child.outcome() for child in children), start - began, total, memory
    )


class _Child:
    """A process, its job, and its latest messages."""

    def __init__(
        self, job: "Job", memory_limit: int | None, keep: bool, progress: Progress
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.job = job
        self._memory_limit = memory_limit
        self._progress = progress
        self.pipe, theirs = context.Pipe()
        # The child has to compute with the same settings of the backend.
        numerics = current_backend().numerics()
        given = theirs, pickle.dumps(job), numerics, memory_limit, progress is not SILENT, keep
        self._process = context.Process(target=_child, args=given, daemon=True)
        with variables_set(_variables(memory_limit, job.device)), deaf_to_ctrl_c():
            self._process.start()
        theirs.close()
        self.state = ""
        self.memory: Memory | None = None
        self._result: JobResult | None = None
        self._error = ""

    def go(self) -> None:
        """Lets the process take its steps."""
        with contextlib.suppress(OSError):
            self.pipe.send("go")

    def listen(self) -> None:
        """Takes one message, or notes that the process has ended without a result."""
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            self._error = _why_it_ended(self._process.exitcode, self._memory_limit)
            self.state = _DONE
            return
        if kind == _STEP:
            self._progress.count(*content)
            return
        self.state = kind
        if kind == _DONE:
            self._result, self.memory = content

    def stop(self) -> None:
        """Ends the process if it has more to do."""
        if self.state != _DONE:
            self._process.terminate()

    def end(self) -> None:
        """Waits until the process has ended; kills it if that takes too long."""
        self._process.join(_PATIENCE_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.pipe.close()

    def outcome(self) -> "JobResult":
        """The result of the job."""
        from tfmp.colocation.report import JobResult

        error = self._error or (self._result.error if self._result else "")
        if self._result is None or not self._result.name:
            return JobResult(self.job.name, self.job.policy, error=error)
        return self._result


def _listen(children: list[_Child], until: str) -> None:
    """Listens until every child has sent a message of this kind, or is done."""
    waiting = [child for child in children if child.state not in (until, _DONE)]
    while waiting:
        heard = wait([child.pipe for child in waiting])
        for child in waiting:
            if child.pipe in heard:
                child.listen()
        waiting = [child for child in waiting if child.state not in (until, _DONE)]


def _variables(memory_limit: int | None, device: str) -> dict[str, str]:
    """The environment variables that a child reads before it imports a framework."""
    from tfmp.machine import card_memory, mps_memory_limit, mps_runs

    changed = dict(current_backend().environment())
    if device:
        # The driver's numbers, as Job(device=...) has them.
        changed |= {"CUDA_VISIBLE_DEVICES": device, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if memory_limit is not None and mps_runs():
        changed |= mps_memory_limit(memory_limit)
    if memory_limit is None:
        # Otherwise the first process takes the whole card.
        changed |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    elif whole := card_memory(device):  # JAX knows no bytes
        changed["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{min(1.0, memory_limit / whole):.4f}"
    return changed


def _why_it_ended(code: int | None, memory_limit: int | None) -> str:
    """The likely reason; frameworks abort where they get no more memory."""
    why = why_it_ended(code)
    if memory_limit is None or code is None or code >= 0:
        return why
    return f"{why}; it may use {bytes_text(memory_limit)}: pass a higher memory_limit"


def _child(
    pipe: Connection,
    pickled: bytes,
    numerics: Mapping[str, bool],
    memory_limit: int | None,
    heard: bool,
    keep: bool,
) -> None:
    """The work of a child process."""
    end_with_parent()

    def tell(kind: str, content: object) -> None:
        with ending_with_parent():
            pipe.send((kind, content))

    with held_back():
        current_backend().begin(numerics, memory_limit)
    from tfmp.colocation.modes import JobRun, describe
    from tfmp.colocation.report import JobResult
    from tfmp.machine import PeakMemory

    try:
        job = pickle.loads(pickled)
    except Exception as error:
        text = f"its functions cannot be found in a new process: {describe(error)}"
        tell(_DONE, (JobResult("", "", error=text), None))
        return
    _limit_host_memory(memory_limit)
    meter = PeakMemory()
    told = Progress(counted=lambda *count: tell(_STEP, count)) if heard else SILENT
    run = JobRun(job, told)
    run.set_up()
    tell(_READY, None)
    with ending_with_parent():
        pipe.recv()
    run.begin()
    start = time.perf_counter()
    run.run()
    result = run.ended(start)
    if keep and result.model is not None:
        result = replace(result, values=tuple(result.model.get_weights()))
    tell(_DONE, (replace(result, model=None), meter.read()))


def _limit_host_memory(limit: int | None) -> None:
    """Limits the growth of this process's memory, if there is no accelerator."""
    from tfmp.machine import accelerators

    if limit is None or accelerators() or sys.platform == "win32":
        return
    import resource

    with open("/proc/self/status", encoding="ascii") as status:
        data = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (data + limit, data + limit))
