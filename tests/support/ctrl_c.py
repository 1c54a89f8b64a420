"""Orders that are heard, whatever started the tests.

A shell's background jobs ignore Ctrl-C, and those under nohup the end of the terminal.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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


@contextmanager
def leading(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that has begun, as the leader of its processes; none outlives this block."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with heard():
        process = subprocess.Popen(command, start_new_session=True, **pipes, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
