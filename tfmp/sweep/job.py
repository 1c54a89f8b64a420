"""The work of one process of a sweep: all variants at one size, in turns."""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

import keras

from tfmp.machine import (
    Device,
    Memory,
    Timing,
    compile_seconds,
    devices,
    interleaved,
    is_out_of_memory,
    keeps_freed_memory,
)
from tfmp.precision import Pattern
from tfmp.profiling import (
    ModelOrBuilder,
    TrainingRun,
    Variant,
    copy_of,
    of_size,
    reason_of,
    steps_in_a_round,
)
from tfmp.shared.backend import without_retracing_advice
from tfmp.shared.batches import TrainingBatch
from tfmp.sweep.prediction import PredictionRun

TRAIN, PREDICT = "train", "predict"

# A model, a function that builds one, or with `model_sizes` a function that takes the size.
ModelSource: TypeAlias = ModelOrBuilder | Callable[[int], keras.Model]

_Run: TypeAlias = TrainingRun | PredictionRun


@dataclass(frozen=True)
class Job:
    """The work of one process.

    Attributes:
        model: the model, or the function that builds it.
        batch: samples; a batch of another size is made of them again and again.
        mode: "train" or "predict".
        variants: the policies that take turns.
        batch_size: samples in a batch.
        model_size: argument of the function; None for a function without one.
        rounds: number of timings of each variant; 0 measures memory only.
        steps: steps in a timing; None for as many as last a quarter of a second.
        keep_float32: as in `tfmp.plan`.
    """

    model: ModelSource
    batch: TrainingBatch
    mode: str
    variants: tuple[Variant, ...]
    batch_size: int
    model_size: int | None
    rounds: int
    steps: int | None
    keep_float32: tuple[Pattern, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One variant at one size.

    Attributes:
        model: name of the model.
        parameters: number of its weights.
        step: seconds of a step; None if it was not timed.
        steps: number of steps in each timing.
        compile_s: seconds of tracing and compiling.
        memory: memory that the step needs.
        error: the reason why no step could be run; empty if it ran.
        lacked_memory: whether it may run with more memory: it ran out, or its process ended.
    """

    model: str = ""
    parameters: int = 0
    step: Timing | None = None
    steps: int = 0
    compile_s: float = 0.0
    memory: Memory | None = None
    error: str = ""
    lacked_memory: bool = False


@dataclass(frozen=True)
class Place:
    """The place where a sweep is measured.

    Attributes:
        device: the device.
        keeps_freed_memory: as in `tfmp.machine`.
    """

    device: Device
    keeps_freed_memory: bool


def look() -> Place:
    """The place, seen from a process of its own: a look may take a card's memory."""
    return Place(devices.visible_devices()[0], keeps_freed_memory())


def measure(job: Job, floatx: str = "float32") -> tuple[Cell, ...]:
    """Measures the job's variants; one that does not run is a cell with the reason.

    Args:
        job: the work.
        floatx: Keras's setting in the process that asks.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras.config.set_floatx(floatx)
    with without_retracing_advice():
        if not job.rounds:
            return tuple(_memory_only(job, variant) for variant in job.variants)
        return _timed(job)


def _timed(job: Job) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    runs: dict[int, _Run] = {}
    first: dict[int, float] = {}
    for place, variant in enumerate(job.variants):
        try:
            run = _run(job, variant)
            first[place] = run.warm_up()
            memory = run.memory()
            cells.append(Cell(run.model.name, run.model.count_params(), memory=memory))
            runs[place] = run
        except Exception as error:  # an error in one dtype need not come in the others
            cells.append(_failed(error))
    if not runs:
        return tuple(cells)
    steps = job.steps or steps_in_a_round(max(run.run(1) for run in runs.values()))
    blocks = {str(place): partial(run.run, steps) for place, run in runs.items()}
    for name, block in interleaved(blocks, job.rounds).items():
        step = block.per(steps)
        compile_s = compile_seconds(first[int(name)], step)
        cells[int(name)] = replace(cells[int(name)], step=step, steps=steps, compile_s=compile_s)
    return tuple(cells)


def _memory_only(job: Job, variant: Variant) -> Cell:
    run = None
    try:
        run = _run(job, variant)
        run.run(1)
        return Cell(run.model.name, run.model.count_params(), memory=run.memory())
    except Exception as error:
        return _failed(error)
    finally:
        del run
        gc.collect()


def _failed(error: Exception) -> Cell:
    return Cell(error=reason_of(error), lacked_memory=is_out_of_memory(error))


def _run(job: Job, variant: Variant) -> _Run:
    batch = of_size(job.batch, job.batch_size)
    sized: Any = (
        job.model if job.model_size is None else partial(cast("Any", job.model), job.model_size)
    )
    copy = copy_of(sized, batch, variant.policy)
    if job.mode == PREDICT:
        return PredictionRun(copy, variant, batch, job.keep_float32)
    return TrainingRun(copy, variant, [batch], job.keep_float32)
