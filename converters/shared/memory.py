"""The memory that a command may take, with which the sizes in files are compared first."""

import ctypes
import gc
import os
import re
from contextlib import suppress

from tfmp.converters.shared.errors import InputError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)

# The rest of the machine, and what is not counted, need some.
_SHARE = 0.9

_LARGE_FILE = 2**27

# What the user chose, in bytes.
_chosen: list[int] = []


def limit_memory(text: str) -> int:
    """Sets the limit of this process, such as "8GiB"; gives it in bytes.

    Raises:
        InputError: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise InputError(
            f"--max-memory {text!r} is no size of memory",
            "Write a number with K, M, G or T, as in 8G (8 GiB)",
        )
    _chosen[:] = [size]
    return size


def no_limit() -> None:
    """Takes back the limit that was set."""
    _chosen.clear()


def memory_limit() -> int:
    """Bytes that this process may take: the user's choice, or nearly all of the machine's."""
    return _chosen[0] if _chosen else int(_memory() * _SHARE)


def check_memory(what: str, needed: int) -> None:
    """Raises `InputError` for something that needs more than may be taken at once."""
    limit = memory_limit()
    if needed > limit:
        raise InputError(
            f"{what} asks for {shown_size(needed)} of memory at once, more than the limit of "
            f"{shown_size(limit)}",
            "Check the file; if it is sound, allow more with --max-memory, or write it in parts",
        )


def free_graphs(size: int) -> None:
    """Frees graphs that nobody holds any more, after the work on a file of `size` bytes.

    A graph and its nodes hold each other. The garbage collector would leave them for long: it
    counts objects, whatever arrays these hold. A collection takes tenths of a second. The C library
    of Linux keeps what was freed, as pieces of it between others are in use, until it is asked.
    """
    if size >= _LARGE_FILE:
        gc.collect()
        with suppress(AttributeError, OSError, TypeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def shown_size(size: int) -> str:
    """Bytes in GiB, or in MiB where these are few."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _memory() -> int:
    """Bytes of memory of this machine, or of the container that this process is in."""
    found = 2**40
    with suppress(AttributeError, ValueError, OSError):  # not every system tells
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        found = min(found, int(file.read()))
    return found
