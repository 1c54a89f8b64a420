"""colocate: several trainings on one device, each in its precision, in whatever way is fastest."""

from collections.abc import Iterable, Sequence

import keras

from tfmp.colocation.choice import PROCESSES, compare, measure, recommend
from tfmp.colocation.job import Job, checked_jobs
from tfmp.colocation.modes import IN_PROCESS, run_in_process
from tfmp.colocation.processes import check_can_travel, run_in_processes
from tfmp.colocation.report import ColocateReport, ModeResult
from tfmp.colocation.training import Progress
from tfmp.machine import devices
from tfmp.precision import policy as policies
from tfmp.profiling import without_retracing_advice

MODES = ("auto", *IN_PROCESS, PROCESSES)


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
        measured, notes = measure(found, mode, measure_steps, memory_limit)
        reason = f"asked for by name; {_compared(mode, measured)}" if mode != "auto" else ""
        if mode == "auto":
            mode, reason = recommend(measured)
        run = _run(mode, found, True, memory_limit, progress) if train else None
    if run is not None and measured:
        run = compare(run, measured[0])
    device = devices.visible_devices()[0]
    if measured and device.kind == "cpu" and len(found) > 1:
        notes.append("measured on a CPU: which mode is the fastest on a GPU is not known here")
    return ColocateReport(
        device=device,
        backend=keras.backend.backend(),
        mode=mode,
        reason=reason,
        measured=tuple(measured),
        run=run,
        notes=tuple(notes),
    )


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
