"""profile_sweep: a profile over batch sizes, each size in its own process.

A process for each size keeps the sizes apart: one that runs out of memory, or is ended because it
takes too much, costs its own row. All variants of a size take turns in one process, so that drift
of the machine hits them alike.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import keras
import numpy as np

from tfmp.machine import (
    ApartError,
    Device,
    Memory,
    bytes_text,
    call_apart,
    devices,
    free_host_memory,
    variables_set,
)
from tfmp.precision import Pattern, as_patterns
from tfmp.profiling.batches import MOST_SAMPLES, BatchLimit, search
from tfmp.profiling.bench import OUT_OF_MEMORY, Job, circumstances, measured
from tfmp.profiling.copies import ModelOrBuilder, check_source
from tfmp.profiling.profile import check_policies
from tfmp.profiling.runs import Variant, variants_of
from tfmp.profiling.sizes import SweepReport
from tfmp.profiling.steps import PREDICT, TRAIN, StepProfile
from tfmp.shared.arguments import check_choice, check_count
from tfmp.shared.backend import current_backend, without_retracing_advice
from tfmp.shared.batches import TrainingData, whole_batches
from tfmp.shared.progress import OnStage, listening
from tfmp.shared.wording import shown

MODES = (TRAIN, PREDICT)

# Otherwise a process takes the whole card, and its memory tells nothing.
_SHARED_CARD = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

# Of the memory that is free: the rest of the computer goes on.
_SHARE = 0.8


def look() -> Device:
    """The device; a look may take a card's memory."""
    return devices.visible_devices()[0]


def measure(job: Job, floatx: str) -> tuple[tuple[StepProfile, ...], str]:
    """Measures a job in this process, which has the `floatx` of the one that asks."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras.config.set_floatx(floatx)
    with without_retracing_advice():
        return measured(job)


def profile_sweep(
    model: ModelOrBuilder,
    data: TrainingData,
    policies: Sequence[str] = ("float32", "mixed_float16"),
    *,
    batch_sizes: Sequence[int] = (8, 32, 128),
    modes: Sequence[str] = MODES,
    xla: bool = False,
    rounds: int = 10,
    steps: int | None = None,
    keep_float32: Pattern | Iterable[Pattern] = (),
    largest_batch: bool = False,
    memory_limit: int | None = None,
    progress: OnStage = None,
) -> SweepReport:
    """Measures steps over batch sizes under several policies.

    Each size runs in a process of its own, in which the policies take turns. The model and its
    functions have to pickle, and a script that calls this needs `if __name__ == "__main__":`. On a
    GPU, pass a function: a model that is alive here keeps the memory that it has on the card.

    Args:
        model: a compiled model or a function that builds and compiles one.
        data: as in `profile_training`; batches of other sizes are made of the samples of its first
            batch, again and again.
        policies: names, as in `tfmp.plan`.
        batch_sizes: samples in a batch, at each of which every policy is measured.
        modes: "train" for a training step, "predict" for a call of `predict`.
        xla: whether each policy is measured without XLA and with it. JAX always compiles with XLA,
            PyTorch never.
        rounds: number of timings of each policy at each size.
        steps: steps in one timing; None takes as many as last a quarter of a second.
        keep_float32: layers to keep in float32, as in `tfmp.plan`.
        largest_batch: whether to search the largest batch that fits, for each policy, in the first
            of the modes: the search doubles the size, then halves the gap.
        memory_limit: bytes that a process may take beside its frameworks, and that a step may need
            on a device; None takes 80 % of the computer's memory that is free now, and all of the
            device's.
        progress: called with a short text when a stage begins.

    Returns:
        The report; print it, save it, or take it to JSON with `to_dict`.

    Raises:
        TypeError: the model, the data or a policy has the wrong type.
        ValueError: an argument is out of range, the model cannot be sent to another process, or
            there is no batch.
    """
    current_backend()  # raises for one that is not supported
    check_policies(policies)
    sizes = _sizes(batch_sizes)
    if not modes:
        raise ValueError(f"modes expects one or more of {', '.join(MODES)}, received none.")
    for mode in modes:
        check_choice("modes", mode, MODES)
    check_source(model, "profile_sweep")
    if memory_limit is not None:
        check_count("memory_limit", memory_limit, hint="It is a number of bytes.")
    with variables_set(_SHARED_CARD):  # a tf.data.Dataset starts the card here, too
        batch = whole_batches(data, sizes[-1])[0].map(np.asarray)
    free = free_host_memory() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    host_limit = memory_limit or int(_SHARE * free)
    job = Job(
        model,
        (batch,),
        sizes[0],
        mode=modes[0],
        rounds=check_count("rounds", rounds),
        steps=None if steps is None else check_count("steps", steps),
        keep_float32=tuple(as_patterns(keep_float32)),
    )
    with listening(progress) as told:
        sweep = Sweep(job, policies, xla, memory_limit, host_limit, told)
        rows = sweep.over_sizes(modes, sizes)
        largest = sweep.largest(rows) if largest_batch else {}
    return sweep.report(rows, largest)


class Sweep:
    """Measures jobs in processes of their own.

    Attributes:
        device: the device of the processes.
        limit_text: the limit of their memory, in words.
        notes: parts that could not be measured, with the reason.
        model_name: name of the model, once it has run.
    """

    def __init__(
        self,
        job: Job,
        policies: Sequence[str],
        xla: bool,
        memory_limit: int | None,
        host_limit: int,
        tell: Callable[[str], None],
    ) -> None:
        self._job, self._tell = job, tell
        self._memory_limit, self._host_limit = memory_limit, host_limit
        self.notes: list[str] = []
        self.model_name = ""
        tell("looking for devices")
        self.device = self._apart(look)
        self._variants = self._all_variants(policies, xla)
        given = "" if memory_limit else ", 80% of the memory that was free"
        self.limit_text = f"{bytes_text(self._host_limit)} for a process{given}"
        if self.device.kind != "cpu":
            self.limit_text = f"the device's memory, and {self.limit_text} of the computer's"

    def _all_variants(self, policies: Sequence[str], xla: bool) -> tuple[Variant, ...]:
        found = variants_of(policies, self.device)
        if not xla:
            return found
        own = current_backend()
        if own.always_jits:
            self.notes.append(f"{own.title} always compiles with XLA: there is no step without it")
            return found
        if not own.has_xla:
            self.notes.append(f"{own.title} has no XLA: each step was measured as Keras runs it")
            return found
        return tuple(replace(variant, xla=on) for on in (False, True) for variant in found)

    def over_sizes(self, modes: Sequence[str], batch_sizes: Sequence[int]) -> list[StepProfile]:
        """The rows of all modes and sizes.

        Raises:
            ValueError: nothing could be measured.
        """
        rows: list[StepProfile] = []
        for mode, batch in product(dict.fromkeys(modes), batch_sizes):
            self._tell(f"{mode}: a batch of {batch} in {', '.join(map(str, self._variants))}")
            sized = replace(self._job, mode=mode, batch_size=batch, variants=self._variants)
            rows += self._together(sized)
        if not any(row.step for row in rows):
            raise ValueError(f"No size could be measured; the first one: {rows[0].error}.")
        return rows

    def report(self, rows: Sequence[StepProfile], largest: Mapping[str, BatchLimit]) -> SweepReport:
        """The report of these results."""
        return SweepReport(
            **circumstances(self.model_name, self._job, self.device),
            rows=tuple(rows),
            largest=largest,
            limit=self.limit_text,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _together(self, job: Job) -> list[StepProfile]:
        """The rows of variants that take turns; one that lacks memory is then tried alone."""
        try:
            rows = list(self._measured(job))
            lacking = [place for place, row in enumerate(rows) if row.error == OUT_OF_MEMORY]
        except ApartError as error:
            rows = [job.row(variant, str(error)) for variant in job.variants]
            lacking = list(range(len(rows)))
        if len(rows) > 1:  # it may have failed for want of the memory that others held
            for place in lacking:
                rows[place] = self._together(replace(job, variants=(job.variants[place],)))[0]
        return rows

    def largest(self, rows: Sequence[StepProfile]) -> dict[str, BatchLimit]:
        """The largest batch that fits under each variant; the search begins at those that ran."""
        found = {}
        mode, first = self._job.mode, self._job.batch_size
        for variant in self._variants:
            at = [
                row for row in rows if row.step and (row.mode, row.variant) == (mode, str(variant))
            ]
            start = max((row.batch_size for row in at), default=first)
            attempt = partial(self._attempt, replace(self._job, variants=(variant,), rounds=0))
            try:
                found[str(variant)] = search(attempt, start, MOST_SAMPLES)
            except (ApartError, ValueError) as error:
                self.notes.append(f"the largest batch in {variant} is unknown: {error}")
        return found

    def _attempt(self, job: Job, size: int) -> Memory | None:
        """The memory of a batch that is tried; None if it does not fit."""
        self._tell(f"{job.mode}: trying a batch of {size} in {job.variants[0]}")
        try:
            (row,) = self._measured(replace(job, batch_size=size))
        except ApartError as error:
            if not error.out_of_memory:
                raise
            return None
        if row.error and row.error != OUT_OF_MEMORY:
            raise ValueError(row.error)
        limit = self._memory_limit
        return row.memory if row.memory and row.memory.bytes <= (limit or math.inf) else None

    def _measured(self, job: Job) -> tuple[StepProfile, ...]:
        rows, name = self._apart(measure, job, keras.config.floatx())
        self.model_name = self.model_name or name
        return rows

    def _apart(self, function: Callable[..., object], *arguments: object) -> Any:
        variables = {
            **current_backend().environment(),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **_SHARED_CARD,
        }
        if any(isinstance(each, Job) and not each.rounds for each in arguments):
            variables["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its pool hides the memory of a step
        return call_apart(function, *arguments, memory_limit=self._host_limit, variables=variables)


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Different sizes, the smallest first."""
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise TypeError(
            f"batch_sizes expects whole numbers, such as (8, 32), received {shown(sizes)}."
        )
    found = tuple(sorted({check_count("batch_sizes", size) for size in sizes}))
    if not found:
        raise ValueError(
            "batch_sizes expects at least one size, such as (8, 32), received an empty list."
        )
    return found
