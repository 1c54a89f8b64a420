"""What is round every command: the meaning of its exit status, whatever happens inside.

A command runs in a process of its own, which a small one watches: native code that crashes on a
damaged file, or takes more memory than there is, then ends in a sentence and status 2. The process
is forked before any framework is loaded, which takes a millisecond.
"""

import errno
import io
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import click

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.memory import (
    limit_memory,
    memory_limit,
    no_limit,
    shown_size,
)
from tfmp.shared.html_page import printable

EXIT_BAD_INPUT = 2

# What shells report of a program that Ctrl-C ended: 128 + SIGINT. Click's own 1 is FAIL here.
EXIT_INTERRUPTED = 130

# EX_SOFTWARE of BSD's sysexits.h. Python's own 1 is FAIL here.
EXIT_DEFECT = 70

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP")
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
_LOOK_SECONDS = 0.2
# A terminal's Ctrl-C reaches the command twice: from the terminal, and passed on.
_SAME_SECONDS = 1.0


class GuardedGroup(click.Group):
    """A group of commands with one meaning for every exit status.

    On the command line of a process the command is also watched from outside; called with
    arguments, as tests do, it runs in the process of its caller.
    """

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Runs the command of `args`; those of the process if there are none."""

        def run() -> Any:
            main: Any = super(GuardedGroup, self).main
            return main(*args, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        if (args[0] if args else extra.get("args")) is None:
            _replace_missing_streams()
            _watch()
        sys.exit(_status_of(run))


def say(text: str) -> None:
    """Writes a message to stderr; one that nobody can read changes no exit status."""
    with suppress(OSError, ValueError):
        click.echo("\n".join(map(printable, text.split("\n"))), err=True)


def report_defect() -> int:
    """Shows the traceback of the exception that is being handled; gives the exit status."""
    say(traceback.format_exc().rstrip("\n"))
    say("This is a defect of tfmp-convert: please report it with the lines above.")
    return EXIT_DEFECT


def status_of(error: BaseException) -> int:
    """Says why a command ended with an exception; gives the exit status."""
    if isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
        say("Interrupted.")
        return EXIT_INTERRUPTED
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        say(shown.getvalue().rstrip("\n"))
        return EXIT_BAD_INPUT
    if isinstance(error, InputError):
        say(f"Error: {error}")
        return EXIT_BAD_INPUT
    if isinstance(error, OSError):
        say(f"Error: {told(error)}")
        return EXIT_BAD_INPUT
    if isinstance(error, MemoryError):
        say("Error: there is not enough memory for this. Take a smaller model or batch.")
        return EXIT_BAD_INPUT
    if isinstance(error, RecursionError):
        say("Error: the model or the data is nested too deeply to be read. Check the files.")
        return EXIT_BAD_INPUT
    return report_defect()


def _status_of(run: Callable[[], Any]) -> int:
    """Runs a command to its end; gives the exit status."""
    try:
        status = run()
        sys.stdout.flush()
    except SystemExit as ended:
        status = ended.code
    except BrokenPipeError:  # nobody reads the help on, as before `head`
        status = 0
    except (Exception, KeyboardInterrupt) as error:
        status = status_of(error)
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    if isinstance(status, str):
        say(status)
        return EXIT_DEFECT
    return status or 0


def _settle(stream: Any) -> None:
    """Python writes what is left once more as it ends, and makes a failure status 120."""
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def told(error: OSError) -> str:
    """What the system refused, and where, in a sentence, with the next step."""
    reason = error.strerror or str(error) or type(error).__name__
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    steps = {
        errno.ENOSPC: "Free space there, or choose another place; for temporary files, name one in "
        "the variable TMPDIR",
        errno.EDQUOT: "Free space there, or choose another place",
        errno.ENAMETOOLONG: "Choose a shorter name",
        errno.EMFILE: "Allow more open files (ulimit -n)",
        errno.ENOMEM: "Free memory, or choose a smaller model or batch",
    }
    step = steps.get(error.errno or 0, "Check the path and its rights")
    return f"{place}the system refuses this ({reason}). {step}."


def _replace_missing_streams() -> None:
    """Streams that the caller closed (`>&-`) swallow what is written to them.

    Otherwise the next file that is opened would be taken for one of them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            while (opened := os.open(os.devnull, os.O_RDWR)) < number:
                pass
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _watch() -> None:
    """Goes on in a new process; this one waits for its end, and ends like it."""
    if not hasattr(os, "fork") or any(name.endswith("_COMPLETE") for name in os.environ):
        return
    ours, its = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        _watching[:] = [its]
        threading.Thread(target=_end_with, args=(its,), daemon=True).start()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _Interrupt())
        return
    its.close()
    for name in _PASSED_ON:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _pass_on(child, number))
    status, used = _wait(child, ours)
    _leave(status, used)


# In a watched process, the way to the one that watches it.
_watching: list[socket.socket] = []


def set_limit(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Limits the memory of this process, and tells so to the one that watches it."""
    if text is None:
        no_limit()
        return None
    try:
        limit = limit_memory(text)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    for way in _watching:
        way.sendall(limit.to_bytes(16, "little"))
    return text


def _end_with(way: socket.socket) -> None:
    """Ends this process when the watching one is gone, which closes its end."""
    way.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


class _Interrupt:
    """Ctrl-C, once where it comes twice."""

    def __init__(self) -> None:
        self._last = -_SAME_SECONDS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last >= _SAME_SECONDS:
            self._last = now
            raise KeyboardInterrupt


def _pass_on(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _wait(child: int, way: socket.socket) -> tuple[int, int]:
    """The status of the child's end, and the memory that it was ended for, or 0."""
    limit = memory_limit()
    way.setblocking(False)
    try:
        handle = os.pidfd_open(child)
    except (AttributeError, OSError):  # neither is there outside of Linux
        return os.waitpid(child, 0)[1], 0
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while not poll.poll(_LOOK_SECONDS * 1000):
        with suppress(BlockingIOError):
            limit = int.from_bytes(way.recv(16), "little") or limit
        used = _resident(child)
        if used > limit:
            for each in _family(child):
                _pass_on(each, signal.SIGKILL)
            return os.waitpid(child, 0)[1], used
    return os.waitpid(child, 0)[1], 0


def _family(process: int) -> list[int]:
    """A process and those that it started."""
    found = [process]
    for each in found:
        with suppress(OSError), open(f"/proc/{each}/task/{each}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


def _resident(process: int) -> int:
    """Bytes of memory of a process and those that it started; files in memory are not counted."""
    total = 0
    for each in _family(process):
        with suppress(OSError), open(f"/proc/{each}/status", "rb") as file:
            for line in file:
                if line.startswith(b"RssAnon:"):
                    total += int(line.split()[1]) * 1024
    return total


def _leave(status: int, used: int) -> NoReturn:
    """Ends like the command, or with the reason why it did not end by itself."""
    if used:
        say(
            f"Error: the command took {shown_size(used)} of memory, more than its limit, and was "
            "stopped. A damaged file may ask for any amount: check the model and the data, or "
            "allow more with --max-memory."
        )
        os._exit(EXIT_BAD_INPUT)
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    name = signal.Signals(os.WTERMSIG(status)).name
    if name in _CRASHES or name == "SIGKILL":
        cause = "as the system does when memory runs out" if name == "SIGKILL" else "in native code"
        say(
            f"Error: the command was ended by {name}, {cause}. The model or the data may be "
            "damaged: check them, or make them again. If they are sound, report this with them."
        )
        os._exit(EXIT_BAD_INPUT)
    os._exit(128 + os.WTERMSIG(status))
