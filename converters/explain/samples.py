"""Keeps the samples that drifted most, for a look at the layers."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tfmp.converters.drift import is_floating
from tfmp.converters.explain.attribution import relative_of
from tfmp.converters.samples import count_batch
from tfmp.converters.shared.tensors import Batch

# Samples named in a report, on which layers are measured.
WORST = 10

# Samples run at a time where the file leaves the number open, and they came together.
ROWS = 4


@dataclass(frozen=True)
class Sample:
    """One sample and its error.

    Attributes:
        index: position in the data, from 0.
        error: see `report.explanation.WorstSample`.
        inputs: arrays by the reference's names, without the batch axis.
        expected: the reference's outputs in the same form.
        received: the candidate's outputs in the same form.
        shared: names of inputs that never had a batch axis.
    """

    index: int
    error: float
    inputs: Batch = field(compare=False, repr=False)
    expected: Batch = field(compare=False, repr=False)
    received: Batch = field(compare=False, repr=False)
    shared: frozenset[str] = frozenset()


class SampleKeeper:
    """Sees every sample and keeps a bounded number of them."""

    def __init__(self) -> None:
        self._count = 0
        self.largest_batch = 0
        # A heap whose top is the first to go: the smallest error, then the last in the data.
        self._worst: list[tuple[float, int, Sample]] = []

    def update(self, inputs: Batch, expected: Batch, received: Batch) -> None:
        """Adds one batch: inputs, the reference's outputs and the candidate's, by its names."""
        rows = count_batch(inputs, "data")
        self.largest_batch = max(self.largest_batch, rows)
        if rows == 1:  # outputs of one sample need no batch axis
            expected, received = _with_batch_axis(expected), _with_batch_axis(received)
        for row, error in enumerate(sample_errors(expected, received).tolist()):
            index = self._count
            self._count += 1
            full = len(self._worst) == WORST
            if full and error <= self._worst[0][0]:
                continue
            sample = _row(inputs, expected, received, row, index, error)
            keep = heapq.heappushpop if full else heapq.heappush
            keep(self._worst, (error, -index, sample))

    def worst(self) -> list[Sample]:
        """The samples with the largest errors, the worst first."""
        return [sample for _, _, sample in sorted(self._worst, reverse=True)]


def sample_errors(expected: Batch, received: Batch) -> np.ndarray:
    """Relative L2 error of each sample, of its worst output.

    It is infinite where one side is not finite and the other differs, and where one has more values
    than the other. For values that are compared
    by equality it is the share that differs.
    """
    errors = [_errors(np.asarray(expected[name]), np.asarray(received[name])) for name in expected]
    return np.maximum.reduce(errors)


def _errors(expected: np.ndarray, received: np.ndarray) -> np.ndarray:
    one, other = (
        np.reshape(array, (len(array), -1)) if array.ndim else array.reshape(1, 1)
        for array in (expected, received)
    )
    if one.shape != other.shape:
        return np.full(len(one), np.inf)
    if not is_floating(one.dtype):
        different = one.astype(str) != other.astype(str) if one.dtype == object else one != other
        return different.mean(axis=1) if different.size else np.zeros(len(one))
    return np.array([relative_of(*pair) for pair in zip(one, other, strict=True)])


def _with_batch_axis(outputs: Batch) -> Batch:
    return {
        name: array if np.shape(array)[:1] == (1,) else np.asarray(array)[None]
        for name, array in outputs.items()
    }


def _row(
    inputs: Batch, expected: Batch, received: Batch, row: int, index: int, error: float
) -> Sample:
    shared = frozenset(name for name, array in inputs.items() if np.ndim(array) == 0)
    return Sample(
        index,
        error,
        {n: np.array(a if n in shared else a[row]) for n, a in inputs.items()},
        _answers(expected, row),
        _answers(received, row),
        shared,
    )


def _answers(outputs: Batch, row: int) -> Batch:
    return {n: np.array(a[row]) if np.ndim(a) else np.array(a) for n, a in outputs.items()}


def batched(
    samples: list[Sample], size: int | None, rows: int = ROWS
) -> Iterator[tuple[Batch, Batch, int]]:
    """Batches of samples whose inputs have the same shapes, in order.

    Args:
        samples: the samples to put together.
        size: batch size of a file that fixes it; None for `rows` samples at a time.
        rows: see `size`.

    Yields:
        Inputs, the reference's outputs, and the number of real rows: if the file fixes the batch
        size, the last sample fills the batch up.
    """
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault(_layout(sample), []).append(sample)
    step = size or rows
    for group in groups.values():
        for start in range(0, len(group), step):
            part = group[start : start + step]
            filled = part + part[-1:] * ((size or len(part)) - len(part))
            first = part[0]
            inputs = {
                name: array
                if name in first.shared
                else np.stack([sample.inputs[name] for sample in filled])
                for name, array in first.inputs.items()
            }
            expected = {
                name: np.stack([sample.expected[name] for sample in part])
                for name in first.expected
            }
            yield inputs, expected, len(part)


def _layout(sample: Sample) -> tuple[object, ...]:
    inputs = [
        (name, array.shape, array.tobytes() if name in sample.shared else b"")
        for name, array in sample.inputs.items()
    ]
    outputs = [(name, array.shape) for name, array in sample.expected.items()]
    return (*inputs, *outputs)
