"""Ctrl-C that is heard, whatever started the tests: a shell's background jobs ignore it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard() -> Iterator[None]:
    """SIGINT is KeyboardInterrupt in this block, and in processes that start in it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
