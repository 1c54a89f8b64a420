"""Streams of one card: kernels of jobs at the same time.

TensorFlow has one stream for the kernels of a card, as JAX has; it can split a card into logical
devices, and each of these has a stream.
"""

from functools import partial

from tfmp.colocation.mode_names import STREAMS
from tfmp.machine import free_memory
from tfmp.shared.backend import Stream, current_backend

# The part of the card's free memory that is handed out; libraries take some more.
_HANDED_OUT = 0.9


def streams_of(count: int, memory_limit: int | None = None) -> list[Stream]:
    """So many streams of the first card; on TensorFlow, of the CPU where there is none.

    Args:
        count: number of streams.
        memory_limit: bytes for each of them on a card; None shares out the card's free memory.

    Raises:
        ValueError: the backend has no streams, TensorFlow has begun with fewer of them, or the
            card's memory is unknown.
    """
    try:
        return current_backend().streams(count, partial(_share, count, memory_limit))
    except ValueError as error:
        raise ValueError(f"Mode {STREAMS!r} {error}.") from error


def _share(count: int, memory_limit: int | None) -> int:
    """The bytes of each logical device."""
    free = free_memory()
    if memory_limit is None and free is None:
        raise ValueError(
            "shares out the card's free memory, but NVIDIA's driver does not tell how much it is: "
            "pass memory_limit, the bytes for each job"
        )
    return memory_limit or int(_HANDED_OUT * (free or 0) / count)
