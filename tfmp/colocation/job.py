"""Job: a model's training among several on a device, and its batch at each step."""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

import keras
import numpy as np

from tfmp.loss_scaling import LossScale, as_loss_scale
from tfmp.precision import Pattern, check_policy
from tfmp.shared.arguments import check_count, is_whole_number
from tfmp.shared.backend import TensorTree
from tfmp.shared.batches import TrainingBatch, TrainingData, labelled_batches
from tfmp.shared.wording import shown

Callbacks: TypeAlias = Sequence[keras.callbacks.Callback]


@dataclass(frozen=True, eq=False)
class Job:
    """One model's training, for `tfmp.colocate`.

    Attributes:
        model: a function without arguments that builds and compiles the model. Every run calls it
            once, under the job's seed and policy.
        data: arrays `(x, y)` or `(x, y, sample_weight)`; batches that can be iterated again and
            again, such as a list or a `tf.data.Dataset`; or a function that returns either.
        policy: as in `tfmp.plan`. Under "float64" weights, optimizer and loss are float64 too.
        steps: number of training steps.
        name: the job's name in reports; by default the function's name and the policy.
        batch_size: samples in a batch that is cut from arrays. All batches are whole: samples that
            are left over come in the next pass, if arrays are shuffled.
        shuffle: whether arrays are shuffled anew for each pass.
        seed: seed of weights, dropout and shuffling.
        steps_per_epoch: number of steps after which callbacks see the end of an epoch; None is one
            pass over arrays, and all steps with other data.
        loss_scale: as in `tfmp.MixedPrecision`, for policies that compute in 16 bits.
        keep_float32: as in `tfmp.plan`.
        callbacks: Keras callbacks, or a function that makes them; short runs that only measure
            have no callbacks.
        weight: steps that it takes in each round, in which every other job takes as many as its
            own weight. Jobs with different weights need mode "interleaved".
        device: the card or MIG instance to train on: the driver's number of a card, or a UUID that
            begins with "GPU-" or "MIG-". It needs mode "processes"; by default all jobs share the
            first card.
        checkpoint: a folder for the whole training state after each epoch. A job that was
            interrupted goes on from it; the folder is removed when the job is done.

    Raises:
        TypeError: `model` is not a function, or `policy` is not a string.
        ValueError: another argument is out of range.
    """

    model: Callable[[], keras.Model]
    data: TrainingData | Callable[[], TrainingData]
    policy: str = "float32"
    steps: int = 100
    name: str = ""
    batch_size: int = 32
    shuffle: bool = True
    seed: int = 0
    steps_per_epoch: int | None = None
    loss_scale: LossScale | float | str = "dynamic"
    keep_float32: Pattern | Sequence[Pattern] = ()
    callbacks: Callbacks | Callable[[], Callbacks] = ()
    checkpoint: str | Path | None = None
    weight: int = 1
    device: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.model, keras.Model) or not callable(self.model):
            raise TypeError(
                "Job expects model to be a function that builds and compiles a Keras model, "
                f"received {type(self.model).__name__}. Each run starts from new weights: pass the "
                "function itself, without calling it."
            )
        check_policy(self.policy)
        as_loss_scale(self.loss_scale)
        check_count("Job(steps=...)", self.steps)
        check_count("Job(batch_size=...)", self.batch_size)
        check_count("Job(weight=...)", self.weight)
        if self.steps_per_epoch is not None:
            check_count("Job(steps_per_epoch=...)", self.steps_per_epoch)
        if not (is_whole_number(self.seed) and 0 <= self.seed < 2**32):
            raise ValueError(
                "Job(seed=...) expects a whole number from 0 to 4294967295; received "
                f"{shown(self.seed)}. 0 is the default."
            )

    def measured(self, steps: int) -> "Job":
        """A run of so many steps that only measures, without callbacks and checkpoint."""
        return replace(self, steps=steps, callbacks=(), checkpoint=None)


def checked_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs, each with its own name.

    Raises:
        TypeError: an item is not a job.
        ValueError: there is no job, or two jobs have the same name.
    """
    if isinstance(jobs, Job) or not isinstance(jobs, Iterable):
        raise TypeError(
            f"colocate expects a list of tfmp.Job, received {type(jobs).__name__}. "
            "colocate([tfmp.Job(build, (x, y), 'float32', steps=100), ...])"
        )
    found = []
    for job in jobs:
        if not isinstance(job, Job):
            raise TypeError(
                f"colocate expects a list of tfmp.Job; one of its items is {shown(job)}. "
                "Write tfmp.Job(build, data, policy, steps)."
            )
        made = getattr(job.model, "__name__", type(job.model).__name__)
        found.append(job if job.name else replace(job, name=f"{made} {job.policy}"))
    if not found:
        raise ValueError("colocate expects at least one job; received an empty list.")
    names = [job.name for job in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(
            f"colocate expects jobs with different names; {min(twice)!r} comes "
            f"{names.count(min(twice))} times. Pass name= to tfmp.Job."
        )
    return tuple(found)


class JobBatches:
    """The batches of a job: every run gets the same batch at the same step.

    Args:
        job: the job; if its data is a function, it is called once.

    Attributes:
        per_pass: number of batches in a pass over arrays; None with other data.

    Raises:
        TypeError: the data has the wrong type.
        ValueError: the data has no batch.
    """

    def __init__(self, job: Job) -> None:
        data = job.data() if callable(job.data) else job.data
        self._job = job
        self._arrays = _arrays(data) if isinstance(data, tuple) else None
        self.per_pass: int | None = None
        if self._arrays is None:
            self._stream = self._forever(data)
            return
        if not self._arrays.samples:
            raise ValueError(f"Job {job.name!r} expects data with samples; its arrays are empty.")
        self.per_pass = max(1, self._arrays.samples // job.batch_size)
        self._stream = self._rows_from(0)

    def peek(self) -> TrainingBatch:
        """The batch that comes next."""
        batch = next(self._stream)
        self._stream = itertools.chain([batch], self._stream)
        return batch

    def skip(self, steps: int) -> None:
        """Skips the batches of so many steps, before any other was taken."""
        if self._arrays is not None:
            self._stream = self._rows_from(steps)
            return
        for _ in range(steps):
            next(self)

    def __iter__(self) -> Iterator[TrainingBatch]:
        return self

    def __next__(self) -> TrainingBatch:
        return next(self._stream)

    def _rows_from(self, step: int) -> Iterator[TrainingBatch]:
        """Rows of the arrays, in an order that follows from seed and pass."""
        assert self._arrays is not None
        assert self.per_pass is not None
        size, samples = self._job.batch_size, self._arrays.samples
        start, first = divmod(step, self.per_pass)
        for turn in itertools.count(start):
            order = np.arange(samples)
            if self._job.shuffle:
                order = np.random.default_rng((self._job.seed, turn)).permutation(samples)
            for index in range(first, self.per_pass):
                yield self._arrays.map(itemgetter(order[index * size : (index + 1) * size]))
            first = 0

    def _forever(self, data: TrainingData) -> Iterator[TrainingBatch]:
        once = iter(data) is data if isinstance(data, Iterable) else False
        while True:
            count = 0
            for batch in labelled_batches(data, self._job.batch_size):
                count += 1
                yield batch
            if not count:
                again = " a second time" if once else ""
                raise ValueError(
                    f"Job {self._job.name!r} expects batches, but its data gave no batch{again}. "
                    "Pass arrays, a list, a tf.data.Dataset, or a function that returns batches."
                )


def _arrays(data: tuple[TensorTree, ...]) -> TrainingBatch:
    """All samples as one batch of arrays that rows can be taken of."""
    whole = next(labelled_batches(data, sys.maxsize), None)
    return TrainingBatch(np.zeros(0), np.zeros(0)) if whole is None else whole.map(np.asarray)
