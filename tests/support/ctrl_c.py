"""Orders that are heard, whatever started the tests.

A shell's background jobs ignore Ctrl-C, and those under nohup the end of the terminal.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard() -> Iterator[None]:
    """SIGINT is KeyboardInterrupt in this block, and in processes that start in it; SIGHUP ends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hung_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, hung_up)
        signal.signal(signal.SIGINT, before)
