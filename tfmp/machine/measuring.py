"""Time and memory of steps, measured fairly for all that are compared.

Functions that are compared take turns in rounds whose order rotates, so that drift of the machine
(clocks, other users, heat) hits them alike. The functions here work for steps of any kind.
"""

import contextlib
import ctypes
import gc
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfmp.shared.backend import Tensor, current_backend
from tfmp.shared.report_files import JsonObject
from tfmp.shared.watched import forget_peak, own_memory

# Where a number of bytes comes from.
DEVICE_MEMORY = "device memory"  # handed out by the backend's allocator on the accelerator
PROCESS_MEMORY = "process memory"  # resident set of this process: the CPU backends count nothing
POOLED_MEMORY = "process memory, at least: TensorFlow's oneDNN allocator keeps freed memory"
RISEN_MEMORY = "device memory, at least: JAX does not let the peak be reset"
LOWER_BOUNDS = (POOLED_MEMORY, RISEN_MEMORY)
PROCESS_LIFETIME = "process memory since its start"  # the system does not let the peak be reset

# What errors say: TensorFlow's and XLA's, PyTorch's of a card, and of a processor.
_OUT_OF_MEMORY = (
    "ResourceExhaustedError",
    "RESOURCE_EXHAUSTED",
    "OOM when allocating",
    "Out of memory",
    "OutOfMemoryError",
    "can't allocate memory",
)

# The memory of a process rises and falls by this much without a reason that can be named.
PROCESS_NOISE_BYTES = 8 * 2**20

# mallopt(3): names of settings, the value that glibc begins with, and the one it ends at.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_SMALL_BLOCK, _LARGE_BLOCK = 128 * 2**10, 32 * 2**20


@dataclass(frozen=True)
class Timing:
    """Several measurements of how long the same work took.

    Attributes:
        seconds: one number for each measurement, in the order in which they were taken.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The typical measurement."""
        return statistics.median(self.seconds)

    @property
    def low(self) -> float:
        """A tenth of the measurements are faster; of fewer than ten it is the fastest."""
        return float(np.quantile(self.seconds, 0.1, method="lower"))

    @property
    def high(self) -> float:
        """A tenth of the measurements are slower; of fewer than ten it is the slowest."""
        return float(np.quantile(self.seconds, 0.9, method="higher"))

    @property
    def spread(self) -> float:
        """Distance of `high` from `low`, as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def per(self, count: int) -> "Timing":
        """The timing of one of `count` equal parts of the work."""
        return Timing(tuple(value / count for value in self.seconds))

    def to_dict(self) -> JsonObject:
        """The summary and the single measurements, as plain JSON types."""
        return {
            "median_s": self.median,
            "low_s": self.low,
            "high_s": self.high,
            "spread": self.spread,
            "seconds": list(self.seconds),
        }


def timed(work: Callable[[], object]) -> float:
    """Seconds from the call until every device is idle again."""
    own = current_backend()
    own.synchronize()
    start = time.perf_counter()
    result = work()
    own.synchronize(result)
    return time.perf_counter() - start


def interleaved(blocks: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Timing]:
    """Times several functions in turn: each once a round, the first of a round last in the next.

    Args:
        blocks: by name, a function that does a block of work and returns the seconds it took.
        rounds: number of measurements of each.

    Returns:
        By name, one measurement for each round.
    """
    order = list(blocks)
    seconds: dict[str, list[float]] = {name: [] for name in order}
    for _ in range(rounds):
        for name in order:
            seconds[name].append(blocks[name]())
        order = order[1:] + order[:1]
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def ratios(of: Timing, to: Timing) -> list[float]:
    """For each round, how many times longer `of` took than `to`."""
    return [a / b for a, b in zip(of.seconds, to.seconds, strict=True)]


def paired_ratio(of: Timing, to: Timing) -> float:
    """How many times longer `of` took than `to` in the same round, as the median over rounds."""
    return statistics.median(ratios(of, to))


# Fewer measurements have no interval of their median at 95 %: 2 * 0.5**5 is more than 5 %.
FEWEST_FOR_INTERVAL = 6


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """An interval that holds the true median with 95 % confidence, whatever the distribution.

    Its ends are order statistics: of n measurements, each is above the median with probability
    1/2. None for fewer than `FEWEST_FOR_INTERVAL` measurements.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < FEWEST_FOR_INTERVAL:
        return None
    # So many may be left out at each end while both tails stay unlikely enough.
    tails = itertools.accumulate(math.comb(n, count) / 2**n for count in range(n))
    index = sum(2 * tail <= 0.05 for tail in tails) - 1
    return ordered[index], ordered[n - 1 - index]


@dataclass(frozen=True)
class Memory:
    """An amount of memory and where the number comes from.

    Attributes:
        bytes: the amount.
        source: `DEVICE_MEMORY`, `PROCESS_MEMORY`, `PROCESS_LIFETIME` or one of `LOWER_BOUNDS`.
    """

    bytes: int
    source: str

    def share_of(self, other: "Memory") -> float | None:
        """This amount as a multiple of the other; None where the difference may be noise."""
        noise = 0 if self.source == other.source == DEVICE_MEMORY else PROCESS_NOISE_BYTES
        known = self.comparable(other) and other.bytes
        if not known or abs(self.bytes - other.bytes) < noise:
            return None
        return self.bytes / other.bytes

    def comparable(self, other: "Memory") -> bool:
        """Whether both numbers were counted alike, and are no lower bounds."""
        return self.source == other.source and self.source not in LOWER_BOUNDS

    @property
    def text(self) -> str:
        """The amount as people read it, with a sign if it is a lower bound."""
        sign = "≥ " if self.source in LOWER_BOUNDS else ""
        return f"{sign}{bytes_text(self.bytes)}"

    def __str__(self) -> str:
        return f"{self.text} of {self.source}"


class PeakMemory:
    """The highest rise of memory since this meter was made.

    Make the meter before the objects that it is to count:

        meter = PeakMemory()
        ... build, compile, train ...
        print(meter.read())

    On an accelerator the number comes from the backend's allocator. On a CPU it is the process's
    resident set, which has the compiler's memory in it too. Until `read` is called, the C library
    is asked to take large blocks from the system and to return them at once: memory that it had
    kept would be used again without a rise. Memory that threads had kept before may still be used
    that way, so the largest of a few meters is the best number.
    """

    def __init__(self) -> None:
        gc.collect()
        current_backend().synchronize()
        _tune_allocator(_SMALL_BLOCK, _SMALL_BLOCK)
        _give_back_free_memory()
        self._source, current, self._peak = _meter()
        self._before = current()

    def read(self) -> Memory:
        """The rise so far."""
        current_backend().synchronize()
        peak = self._peak()
        _tune_allocator(_LARGE_BLOCK, 2 * _LARGE_BLOCK)
        return Memory(max(0, peak - self._before), self._source)


def _meter() -> tuple[str, Callable[[], int], Callable[[], int]]:
    """(source, bytes now, highest bytes since this call)."""
    # The backend's allocator may be a pool, or keep its peak: then only growth shows.
    keeps_freed = current_backend().pools_memory()
    of_accelerator = current_backend().meter()
    if of_accelerator is not None:
        return RISEN_MEMORY if keeps_freed else DEVICE_MEMORY, *of_accelerator
    if not forget_peak():
        return PROCESS_LIFETIME, lambda: 0, _lifetime_peak
    source = POOLED_MEMORY if keeps_freed else PROCESS_MEMORY
    return source, lambda: own_memory("VmRSS"), lambda: own_memory("VmHWM")


def _lifetime_peak() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _give_back_free_memory() -> None:
    """Has the C library return freed memory, so that using it again counts as a rise."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def _tune_allocator(from_system: int, keep: int) -> None:
    """Has glibc take blocks of one size from the system, and keep so much freed memory.

    Without this call glibc raises both, up to `_LARGE_BLOCK` and twice as much, as large blocks
    are freed.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, from_system)
        library.mallopt(_M_TRIM_THRESHOLD, keep)


def size_in_bytes(tensor: Tensor) -> int:
    """The bytes of a tensor's or variable's values."""
    from keras import backend

    dtype = backend.standardize_dtype(tensor.dtype)
    size = 2 if dtype == "bfloat16" else 1 if dtype == "string" else np.dtype(dtype).itemsize
    return math.prod(tensor.shape) * size


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of any backend says that the device or the process ran out of memory."""
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY)


def seconds_text(seconds: float) -> str:
    """Seconds as people read them: 2.5 h, 3.2 min, 1.23 s, 45.6 ms, 789 µs."""
    for unit, size, least in (("h", 3600, 3600), ("min", 60, 120), ("s", 1, 1), ("ms", 1e-3, 1e-3)):
        if seconds >= least:
            return f"{float(f'{seconds / size:.3g}'):g} {unit}"
    return f"{float(f'{seconds / 1e-6:.3g}'):g} µs"


def bytes_text(count: float) -> str:
    """Bytes as people read them: 1.5 GiB."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):g} {unit}"
    return f"{count:.0f} B"
