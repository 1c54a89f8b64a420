"""Batches of other sizes, and a search for the largest that fits."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfmp.machine import Memory
from tfmp.shared.backend import Tensor
from tfmp.shared.batches import TrainingBatch

# Sizes of 16 and more are tried in multiples of 8: others lose Tensor Core speed.
_MULTIPLE = 8
# The search ends within this share of the largest size that fits.
_RESOLUTION = 1 / 16
# Nobody trains with more, and so many copies of a few samples are no workload.
MOST_SAMPLES = 2**20


@dataclass(frozen=True)
class BatchLimit:
    """The largest batch that fits.

    Attributes:
        fits: the largest size that was tried and fits; 0 if no size fits.
        fails: the smallest size that was tried and does not fit; None if all sizes fit.
        memory: memory that a step with `fits` samples needs.
    """

    fits: int
    fails: int | None
    memory: Memory | None

    def __str__(self) -> str:
        if self.fails is None:
            return f"{self.fits} and more"
        return f"{self.fits} ({self.fails} does not fit)" if self.fits else f"below {self.fails}"


def search(attempt: Callable[[int], Memory | None], start: int, most: int) -> BatchLimit:
    """Doubles until a size does not fit, then halves the gap.

    Args:
        attempt: tries one size, and gives the memory that its step needs, or None if it does not
            fit; all sizes up to some limit are expected to fit.
        start: the first size to try.
        most: the largest size to try.
    """
    tried: dict[int, Memory | None] = {}

    def fits(size: int) -> bool:
        tried[size] = attempt(size)
        return tried[size] is not None

    low, high = 0, 0
    size = min(start, most)
    while size and not high:
        if fits(size):
            low = size
            size = min(2 * size, most) if size < most else 0
        else:
            high = size
    while high and high - low > max(1, int(low * _RESOLUTION)):
        size = (low + high) // 2
        if size >= 2 * _MULTIPLE and size // _MULTIPLE * _MULTIPLE > low:
            size = size // _MULTIPLE * _MULTIPLE
        if fits(size):
            low = size
        else:
            high = size
    return BatchLimit(low, high or None, tried.get(low))


def of_size(batch: TrainingBatch, size: int) -> TrainingBatch:
    """A batch with so many samples, made of the given ones again and again."""

    def rows(array: Tensor | np.ndarray) -> np.ndarray:
        array = np.asarray(array)
        return array[np.arange(size) % len(array)]

    return batch.map(rows)
