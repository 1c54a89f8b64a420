"""The input pipeline beside the training step: by itself, and together, inside `fit`.

`fit` runs three times on the user's own data: with a step that only takes batches, with a step
whose batch is on the device already, and as it is. All three have the same loop round them, so that
the difference between the last two is time in which the device waits for data.
"""

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, cast

import keras
import numpy as np
from keras import tree

from tfmp.machine import measuring
from tfmp.roofline.verdict import INPUT_BOUND, times_text
from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.batches import TrainingBatch, TrainingData, labelled_batches

# XProf's input-pipeline analyzer calls a step "highly input-bound" from this share of waiting on,
# and "moderately" from the smaller one.
INPUT_BOUND_SHARE, NOTABLE_SHARE = 0.2, 0.05

_SECONDS = 0.3  # of one measurement
_MOST_BATCHES = 200

# Arrays that are shorter are made longer up to this size, so that an epoch lasts long enough.
_LONGER_BYTES, _LEAST_BATCHES = 2**28, 8

_ROUNDS = 2  # the first compiles steps for batches of other sizes

# By kind of data, the change of the pipeline that would help.
_ADVICE = {
    "tf.data": "give .map(...) num_parallel_calls=tf.data.AUTOTUNE, and end the pipeline with "
    ".prefetch(tf.data.AUTOTUNE): it then runs beside the step",
    "PyDataset": "more workers: PyDataset(workers=..., use_multiprocessing=True for Python work)",
    "Python iterable": "Python makes one batch at a time: a keras.utils.PyDataset with workers=, "
    "or tf.data with .prefetch(tf.data.AUTOTUNE), works beside the step",
}
_FLOAT64 = "batches are float64: float32 from the start halves the pipeline's bytes"


@dataclass(frozen=True)
class InputPipeline:
    """Seconds of a batch.

    Attributes:
        variant: the variant whose step was used: the fastest.
        kind: "tf.data", "PyDataset", "arrays" or "Python iterable".
        data_s: the pipeline by itself.
        step_s: the step by itself, with a batch on the device.
        together_s: both, as in `fit`.
        batches: number of batches in the last measurement.
        advice: changes of the pipeline that would help.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("verdict", "waiting_share", "at_most")

    variant: str
    kind: str
    data_s: float
    step_s: float
    together_s: float
    batches: int
    advice: tuple[str, ...] = ()

    @property
    def waiting_share(self) -> float:
        """Share of the time in `fit` in which the step waits for data.

        No step waits longer for a batch than making one takes: more is noise of the machine.
        """
        waiting = min(self.together_s - self.step_s, self.data_s)
        return max(0.0, waiting / self.together_s) if self.together_s else 0.0

    @property
    def input_bound(self) -> bool:
        """Whether the pipeline holds the training back, by XProf's limit."""
        return self.waiting_share >= INPUT_BOUND_SHARE

    @property
    def at_most(self) -> float:
        """How many times faster training would be with a pipeline that costs nothing."""
        return 1 / (1 - self.waiting_share) if self.waiting_share < 1 else 1.0

    @property
    def verdict(self) -> str:
        """Whether it is input-bound, in words."""
        return INPUT_BOUND if self.input_bound else f"not {INPUT_BOUND}"

    @property
    def text(self) -> str:
        """The finding in one sentence."""
        share = f"{self.waiting_share:.0%} of the time in fit is waiting for data"
        if not self.input_bound:
            return f"{self.verdict}: {share}"
        gain = times_text(self.at_most)
        return f"{self.verdict}: {share}; a pipeline that keeps up buys at most {gain}"


def measure_pipeline(
    model: keras.Model,
    data: TrainingData,
    batch: TrainingBatch,
    batch_size: int,
    variant: str,
) -> InputPipeline:
    """Times a pipeline, a step, and both.

    Args:
        model: a compiled model whose training step was made; it is trained.
        data: the user's data.
        batch: one batch of it.
        batch_size: samples in a batch that is cut from arrays.
        variant: name of the model's variant.

    Raises:
        ValueError: the data ends before it could be timed.
    """
    step = model.train_function
    if isinstance(data, Iterator):
        data = _Shared(data)
    whole, same = partial(_arguments, data, batch_size), partial(_arguments, [batch], batch_size)
    runs = {"together": (step, whole), "data": (_take, whole)}
    runs["step"] = (_on(step, batch.placed()), same)
    clocks: dict[str, _Clock] = {}
    try:
        for name, (function, arguments) in [*runs.items()] * _ROUNDS:
            model.train_function = function
            clock = _fit(model, arguments())
            if clock.batches > 0:
                clocks[name] = min(clock, clocks.get(name, clock), key=attrgetter("per_batch"))
    except ValueError:  # Keras takes no iterator without batches
        if not (isinstance(data, _Shared) and data.ended):
            raise
    finally:
        model.train_function = step
    if len(clocks) < len(runs):
        raise ValueError(
            "the data can be read once and has ended: too few batches to time the input pipeline"
        )
    data_s, step_s, together_s = (clocks[name].per_batch for name in ("data", "step", "together"))
    batches = clocks["together"].batches
    found = InputPipeline(variant, _kind(data), data_s, step_s, together_s, batches)
    if found.waiting_share < NOTABLE_SHARE:
        return found
    return replace(found, advice=tuple(_advice(found.kind, batch)))


class _Clock(keras.callbacks.Callback):
    """Times the batches of `fit` after the first, which fills buffers, and stops it."""

    def __init__(self) -> None:
        super().__init__()
        self._start = 0.0
        self.batches = -1
        self.seconds = 0.0

    @property
    def per_batch(self) -> float:
        return self.seconds / self.batches

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self.batches += 1
        if not self.batches:
            measuring.synchronize(logs)
            self._start = time.perf_counter()
            return
        late = time.perf_counter() - self._start >= _SECONDS
        if late or self.batches >= _MOST_BATCHES:
            self._stop(logs)
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if not self.seconds:  # data that can be read only once has ended
            self._stop(logs)

    def _stop(self, logs: Mapping[str, Any] | None) -> None:
        measuring.synchronize(logs)
        self.seconds = time.perf_counter() - self._start


class _Repeated(keras.utils.PyDataset):
    """A PyDataset that goes on from the beginning, with the same workers."""

    def __init__(self, inner: keras.utils.PyDataset) -> None:
        super().__init__(inner.workers, inner.use_multiprocessing, inner.max_queue_size)
        self._inner = inner

    def __len__(self) -> int:
        return max(len(self._inner), 2 * _MOST_BATCHES)

    def __getitem__(self, index: int) -> Any:
        return self._inner[index % len(self._inner)]


class _Shared(Iterator[Any]):
    """An iterator for several threads: TensorFlow goes on reading after `fit` has ended."""

    def __init__(self, inner: Iterator[Any]) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.ended = False

    def __next__(self) -> Any:
        with self._lock:
            try:
                return next(self._inner)
            except StopIteration:
                self.ended = True
                raise


def _fit(model: keras.Model, arguments: Mapping[str, Any]) -> _Clock:
    clock = _Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # data that ends is no mistake here
        model.fit(**arguments, verbose=0, callbacks=[clock])
    return clock


def _take(*state_and_iterator: Any) -> Any:
    """A training step that only takes its batch; on JAX it is called with the state, too."""
    *state, iterator = state_and_iterator
    next(iter(iterator))
    return ({}, state[0]) if state else {}


def _on(step: Callable[..., Any], placed: TensorTree) -> Callable[..., Any]:
    """A training step with a batch that is on the device."""

    def run(*state_and_iterator: Any) -> Any:
        return step(*state_and_iterator[:-1], current_backend().feed([placed]))

    return run


def _arguments(data: TrainingData, batch_size: int) -> dict[str, Any]:
    """The arguments of `fit` for data in any form, so that the first epoch is long enough."""
    if isinstance(data, tuple):
        rows = batch_size * _batches_of_arrays(data, batch_size)
        whole = TrainingBatch(*data).map(lambda array: _longer(array, rows))
        return {**whole._asdict(), "batch_size": batch_size}
    if isinstance(data, keras.utils.PyDataset):
        return {"x": _Repeated(data)}
    if _is_dataset(data):
        return {"x": cast(Any, data).repeat()}
    return {"x": _again_and_again(data, batch_size)}


def _batches_of_arrays(data: tuple[TensorTree, ...], batch_size: int) -> int:
    """Number of batches that arrays are made long enough for."""
    row = sum(np.asarray(array[:1]).nbytes for array in tree.flatten(data) if array is not None)
    return max(_LEAST_BATCHES, min(2 * _MOST_BATCHES, _LONGER_BYTES // max(1, row * batch_size)))


def _longer(array: Any, rows: int) -> Any:
    """An array with at least so many rows, the same ones again and again."""
    return array if len(array) >= rows else np.asarray(array)[np.arange(rows) % len(array)]


def _again_and_again(data: TrainingData, batch_size: int) -> Iterator[tuple[TensorTree, ...]]:
    while True:
        for batch in labelled_batches(data, batch_size):
            yield tuple(part for part in batch if part is not None)
        if isinstance(data, Iterator):
            return


def _is_dataset(data: object) -> bool:
    return any(kind.__module__.startswith("tensorflow.") for kind in type(data).__mro__)


def _kind(data: TrainingData) -> str:
    if isinstance(data, tuple):
        return "arrays"
    if isinstance(data, keras.utils.PyDataset):
        return "PyDataset"
    return "tf.data" if _is_dataset(data) else "Python iterable"


def _advice(kind: str, batch: TrainingBatch) -> Iterator[str]:
    if kind in _ADVICE:
        yield _ADVICE[kind]
    if any(np.asarray(array).dtype == np.float64 for array in tree.flatten(batch.x)):
        yield _FLOAT64
