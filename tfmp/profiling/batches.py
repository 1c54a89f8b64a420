"""The largest size that fits: a search that tries a step at each size.

On an accelerator a size does not fit if the device runs out of memory. On a CPU this would take the
machine down, so a size does not fit if its step needs more than a given limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfmp.machine import Memory, devices, keeps_freed_memory
from tfmp.shared.arguments import check_count
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
        bound: the limit, in words.
        tried: number of sizes that were trained.
    """

    fits: int
    fails: int | None
    memory: Memory | None
    bound: str
    tried: int

    def __str__(self) -> str:
        if self.fails is None:
            return f"{self.fits} and more"
        return f"{self.fits} ({self.fails} does not fit)" if self.fits else f"below {self.fails}"


def check_memory_limit(memory_limit: int | None) -> None:
    """Accepts a limit that ends the search.

    Raises:
        ValueError: the limit is not a count of bytes, or on a CPU there is no limit, or the CPU's
            memory cannot be measured.
    """
    if memory_limit is not None:
        check_count("memory_limit", memory_limit, hint="It is a number of bytes.")
    if memory_limit is None and not devices.accelerators():
        raise ValueError(
            "The search for the largest batch expects a memory_limit on a CPU, received None: "
            "without a limit it would fill the machine's memory. Pass the bytes that a training "
            "step may need, such as memory_limit=2 * 2**30 (--memory-limit 2GiB)."
        )
    if memory_limit is not None and not devices.accelerators() and keeps_freed_memory():
        raise ValueError(
            "The search for the largest batch expects to measure the memory of a step, but "
            "TensorFlow's oneDNN allocator keeps memory that steps free. Set the environment "
            "variable TF_ENABLE_ONEDNN_OPTS=0 for the search, or use the JAX backend."
        )


def search(
    attempt: Callable[[int], Memory | None], start: int, most: int, bound: str
) -> BatchLimit:
    """Doubles until a size does not fit, then halves the gap.

    Args:
        attempt: tries one size, and gives the memory that its step needs, or None if it does not
            fit; all sizes up to some limit are expected to fit.
        start: the first size to try.
        most: the largest size to try.
        bound: the limit of the batch in words, for the result.
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
    return BatchLimit(low, high or None, tried.get(low), bound, len(tried))


def of_size(batch: TrainingBatch, size: int) -> TrainingBatch:
    """A batch with so many samples, made of the given ones again and again."""

    def rows(array: Tensor | np.ndarray) -> np.ndarray:
        array = np.asarray(array)
        return array[np.arange(size) % len(array)]

    return batch.map(rows)
