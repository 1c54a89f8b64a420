"""profile_sweep: a profile over batch sizes and model sizes, each size in its own process.

A process for each size keeps the sizes apart: one that runs out of memory, or is ended because it
takes too much, costs its own row. All variants of a size take turns in one process, so that drift
of the machine hits them alike.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
from tfmp.profiling.batches import MOST_SAMPLES, search
from tfmp.profiling.bench import OUT_OF_MEMORY, Job, ModelSource, circumstances, measured, needed
from tfmp.profiling.profile import check_policies
from tfmp.profiling.runs import Variant, variants_of
from tfmp.profiling.sizes import Largest, SweepReport
from tfmp.profiling.steps import PREDICT, TRAIN, StepProfile
from tfmp.shared.arguments import check_choice, check_compiled, check_count
from tfmp.shared.backend import check_backend, current_backend, without_retracing_advice
from tfmp.shared.batches import TrainingData, whole_batches
from tfmp.shared.progress import listening
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
    model: ModelSource,
    data: TrainingData,
    policies: Sequence[str] = ("float32", "mixed_float16"),
    *,
    batch_sizes: Sequence[int] = (8, 32, 128),
    model_sizes: Sequence[int] = (),
    modes: Sequence[str] = MODES,
    xla: bool = False,
    rounds: int = 10,
    steps: int | None = None,
    keep_float32: Pattern | Iterable[Pattern] = (),
    largest_batch: bool = False,
    largest_model: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> SweepReport:
    """Measures steps over batch sizes and model sizes under several policies.

    Each size runs in a process of its own, in which the policies take turns. The model and its
    functions have to pickle, and a script that calls this needs `if __name__ == "__main__":`. On a
    GPU, pass a function: a model that is alive here keeps the memory that it has on the card.

    Args:
        model: a compiled model or a function that builds and compiles one; with `model_sizes` or
            `largest_model`, a function that takes a size, such as a width or a number of blocks.
        data: as in `profile_training`; batches of other sizes are made of the samples of its first
            batch, again and again.
        policies: names, as in `tfmp.plan`.
        batch_sizes: samples in a batch, at each of which every policy is measured.
        model_sizes: arguments of the function, at each of which every batch size is measured.
        modes: "train" for a training step, "predict" for a call of `predict`.
        xla: whether each policy is measured without XLA and with it. JAX always compiles with XLA,
            PyTorch never.
        rounds: number of timings of each policy at each size.
        steps: steps in one timing; None takes as many as last a quarter of a second.
        keep_float32: layers to keep in float32, as in `tfmp.plan`.
        largest_batch: whether to search the largest batch that fits, for each policy, at the first
            of the model sizes.
        largest_model: whether to search the largest model that fits, for each policy, at the first
            of the batch sizes. Both searches double the size, then halve the gap, in the first of
            the modes.
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
    check_backend()
    check_policies(policies)
    sizes = _sizes("batch_sizes", batch_sizes, least=1)
    models = _sizes("model_sizes", model_sizes, least=0)
    _check_modes(modes)
    _check_model(model, models, largest_model)
    if memory_limit is not None:
        check_count("memory_limit", memory_limit, hint="It is a number of bytes.")
    with variables_set(_SHARED_CARD):  # a tf.data.Dataset starts the card here, too
        batch = whole_batches(data, sizes[-1])[0].map(np.asarray)
    host_limit = memory_limit or int(_SHARE * _free_memory())
    job = Job(
        model,
        (batch,),
        sizes[0],
        mode=modes[0],
        model_size=models[0] if models else None,
        rounds=check_count("rounds", rounds),
        steps=None if steps is None else check_count("steps", steps),
        keep_float32=tuple(as_patterns(keep_float32)),
    )
    asked = {"batch": largest_batch, "model": largest_model}
    with listening(progress) as told:
        sweep = Sweep(job, policies, xla, memory_limit, host_limit, told)
        rows = sweep.over_sizes(modes, models, sizes)
        largest = [
            each for what, wanted in asked.items() if wanted for each in sweep.largest(what, rows)
        ]
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

    def over_sizes(
        self, modes: Sequence[str], models: Sequence[int], batch_sizes: Sequence[int]
    ) -> list[StepProfile]:
        """The rows of all modes and sizes.

        Raises:
            ValueError: nothing could be measured.
        """
        rows: list[StepProfile] = []
        for mode, model, batch in product(dict.fromkeys(modes), models or (None,), batch_sizes):
            size = "" if model is None else f", model size {model}"
            variants = ", ".join(map(str, self._variants))
            self._tell(f"{mode}: a batch of {batch}{size} in {variants}")
            sized = replace(self._job, mode=mode, model_size=model, batch_size=batch)
            rows += self._together(replace(sized, variants=self._variants))
        if not any(row.step for row in rows):
            raise ValueError(
                f"No size could be measured; the first one: {rows[0].error.rstrip('.')}."
            )
        return rows

    def report(self, rows: Sequence[StepProfile], largest: Sequence[Largest]) -> SweepReport:
        """The report of these results."""
        return SweepReport(
            **circumstances(self.model_name, self._job, self.device),
            rows=tuple(rows),
            largest=tuple(largest),
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

    def largest(self, what: str, rows: Sequence[StepProfile]) -> list[Largest]:
        """The largest batch, or the largest model, that fits under each variant.

        Args:
            what: "batch" or "model".
            rows: the sizes that ran already; the search begins at the largest of them.
        """
        axis, fixed = ("batch_size", "model_size")[:: 1 if what == "batch" else -1]
        found = []
        for variant in self._variants:
            ran = [
                getattr(row, axis)
                for row in rows
                if row.step and (row.mode, row.variant) == (self._job.mode, str(variant))
                if getattr(row, fixed) == getattr(self._job, fixed)
            ]

            def attempt(size: int, variant: Variant = variant) -> Memory | None:
                self._tell(f"{self._job.mode}: trying a {what} of {size} in {variant}")
                sized: dict[str, Any] = {axis: size}
                return self._attempt(replace(self._job, variants=(variant,), rounds=0, **sized))

            start = max(ran, default=getattr(self._job, axis))
            try:
                limit = search(attempt, start, MOST_SAMPLES, self.limit_text)
            except (ApartError, ValueError) as error:
                self.notes.append(f"the largest {what} in {variant} is unknown: {error}")
            else:
                found.append(Largest(what, self._job.mode, str(variant), limit))
        return found

    def _attempt(self, job: Job) -> Memory | None:
        try:
            (row,) = self._measured(job)
        except ApartError as error:
            if not error.out_of_memory:
                raise
            return None
        return needed(row, self._memory_limit)

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


def _sizes(name: str, sizes: Sequence[int], least: int) -> tuple[int, ...]:
    """Different sizes, the smallest first.

    Raises:
        ValueError: there are fewer than `least`.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise TypeError(f"{name} expects whole numbers, such as (8, 32), received {shown(sizes)}.")
    found = tuple(sorted({check_count(name, size) for size in sizes}))
    if len(found) < least:
        raise ValueError(
            f"{name} expects at least one size, such as (8, 32), received an empty list."
        )
    return found


def _check_modes(modes: Sequence[str]) -> None:
    for mode in modes:
        check_choice("modes", mode, MODES)
    if not modes:
        raise ValueError(f"modes expects one or more of {', '.join(MODES)}, received none.")


def _check_model(model: ModelSource, sizes: Sequence[int], largest_model: bool) -> None:
    sized = bool(sizes) or largest_model
    if isinstance(model, keras.Model) and not sized:
        check_compiled(model)
    elif isinstance(model, keras.Model) or not callable(model):
        kind = "a function that takes a size and returns a compiled model"
        if not sized:
            kind = "a compiled Keras model or a function that returns one"
        raise TypeError(f"profile_sweep expects {kind}, received {shown(model)}.")
    if largest_model and not sizes:
        raise ValueError(
            "largest_model expects model_sizes, whose first one is where the search begins; "
            "received none. Pass a size, such as model_sizes=(64,)."
        )


def _free_memory() -> int:
    return free_host_memory() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
