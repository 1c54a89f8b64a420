"""A command in a process of its own, which a small one watches.

The small one passes on orders to end (Ctrl-C, SIGTERM, a terminal that closes) and has them obeyed,
ends a command that takes too much memory, and removes what a command that was killed left behind.
The command's process is forked before any framework is loaded, which takes a millisecond.
"""

import atexit
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tfmp.shared.atomic_file import remove_abandoned, tell_of_drafts

# Orders to end, and the line that tells of each.
_TOLD = {"SIGINT": "Interrupted.", "SIGTERM": "Terminated.", "SIGHUP": "The terminal was closed."}
_ORDERS = {getattr(signal, name): text for name, text in _TOLD.items() if hasattr(signal, name)}

# An order that is lost (in native code, or a callback that cannot raise) ends the command after so
# long. Docker, which waits least, kills after 10.
_PATIENCE_SECONDS = 7.0

_LOOK_SECONDS = 0.2
_ENDING_SECONDS = 0.001

# A terminal's Ctrl-C reaches the command twice: from the terminal, and passed on.
_SAME_SECONDS = 1.0

# From Linux's prctl.h.
_PR_SET_CHILD_SUBREAPER = 36

_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")

# Kinds of messages to the watching process; each ends with a zero byte.
_LIMIT, _FOLDER, _TIME = b"limit", b"folder", b"time"


class Ordered(KeyboardInterrupt):
    """An order to end by a signal, which code that knows Ctrl-C takes for it.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class End:
    """The end of a command, as its watching process saw it.

    Attributes:
        status: as `os.waitpid` gives it.
        used: bytes of memory that it was stopped for, or 0.
        order: the signal that it had to be killed for, as it did not obey; or 0.
        overdue: the work that it had to be killed for, as it took too long; or "".
    """

    status: int
    used: int = 0
    order: int = 0
    overdue: str = ""


def _fill_closed_streams() -> None:
    """Opens streams that were closed at the start (`2>&-`): a file would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115


def watch(limit: int = 0) -> End | None:
    """Goes on in a new process, where it gives None; here it gives the end of that process.

    Without `os.fork` it goes on in this one.

    Args:
        limit: bytes of memory that the new process and those that it starts may take; 0 for any
            number. `tell_limit` changes it.
    """
    _fill_closed_streams()
    if not hasattr(os, "fork") or any(name.endswith("_COMPLETE") for name in os.environ):
        _heed()
        return None
    ours, its = socket.socketpair()
    # Nobody is told to end before the one who hears it is there.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ORDERS)
    child = os.fork()
    if not child:
        ours.close()
        _heed()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _ways[:] = [its]
        tell_of_drafts(lambda folder: _tell(_FOLDER, os.fsencode(folder)))
        threading.Thread(target=_end_with, args=(its,), daemon=True).start()
        return None
    its.close()
    command = _Command(child, ours, limit)
    for number in _ORDERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, command.pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _adopt()
    return command.end()


@contextmanager
def heeding() -> Iterator[None]:
    """Orders are orders inside of the block, though a library takes them over, and behind it."""
    ours = [number for number in _ORDERS if signal.getsignal(number) is _heard]
    try:
        yield
    except SystemExit as ended:  # as Ray ends for an order
        for number in ours:
            if ended.code == number:
                _heard(number, None)
        raise
    finally:
        for number in ours:
            signal.signal(number, _heard)


def order_of(error: BaseException | None = None) -> int:
    """The order that this process ends for, or 0.

    That is the first one that it heard, whatever the interrupted code has made of it.
    """
    if _heard.number:
        return _heard.number
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else 0


def leave(order: int) -> NoReturn:
    """Ends the command for an order without the end of Python, where frameworks take seconds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    atexit._run_exitfuncs()  # libraries remove their own temporary files
    os._exit(status_of(order))


def settle(stream: Any) -> None:
    """Writes what is left, or drops it: Python would try once more, and end with status 120."""
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def told(order: int) -> str:
    """The line that tells of an order."""
    return _ORDERS[signal.Signals(order)]


def status_of(order: int) -> int:
    """The exit status that shells report of a program that a signal ended."""
    return 128 + order


def tell_limit(limit: int) -> None:
    """Sets the memory that this process may take, where another one watches it."""
    _tell(_LIMIT, b"%d" % limit)


@contextmanager
def within(seconds: float, work: str) -> Iterator[None]:
    """Has this process ended, where another one watches it, if the block takes longer.

    Native code that reads damaged files may never end, and hears no orders.

    Args:
        seconds: that the block may take.
        work: what it does, for the message.
    """
    _tell(_TIME, f"{seconds} {work}".encode(errors="replace"))
    try:
        yield
    finally:
        _tell(_TIME, b"inf")


def family(process: int) -> list[int]:
    """A process and those that it started."""
    found = [process]
    for each in found:
        with suppress(OSError), open(f"/proc/{each}/task/{each}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


def resident(process: int) -> int:
    """Bytes of memory of a process and those that it started; files in memory are not counted."""
    total = 0
    for each in family(process):
        with suppress(OSError), open(f"/proc/{each}/status", "rb") as file:
            for line in file:
                if line.startswith(b"RssAnon:"):
                    total += int(line.split()[1]) * 1024
    return total


def forget_peak() -> bool:
    """Forgets the highest memory of this process so far; False where the system cannot."""
    try:
        _CLEAR_REFS.write_text("5", encoding="ascii")  # Linux: resets VmHWM, proc(5)
    except OSError:
        return False
    return True


def own_memory(name: str) -> int:
    """Bytes of this process's memory: "VmRSS" for now, "VmHWM" for the highest."""
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


# In a watched process, the way to the one that watches it.
_ways: list[socket.socket] = []


def _tell(kind: bytes, content: bytes) -> None:
    for way in _ways:
        way.sendall(b"%b %b\0" % (kind, content))


def _end_with(way: socket.socket) -> None:
    """Ends this process when the watching one is gone, which closes its end."""
    way.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


class _Heard:
    """What orders do in the process of the command: raise `Ordered`, once where they come twice."""

    def __init__(self) -> None:
        self.number = 0
        self._last = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        first, now = not self.number, time.monotonic()
        same = now - self._last < _SAME_SECONDS
        self._last = now
        if first:
            self.number = number
        if first or (number == signal.SIGINT and not same):  # somebody insists
            raise Ordered(number)


_heard = _Heard()


def _heed() -> None:
    """Has orders end this process in good order, but for those that it was started deaf to."""
    for number in _ORDERS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _heard)


def _adopt() -> None:
    """Makes this process the parent of processes that lose theirs, where the system can."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill(processes: list[int]) -> None:
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _end_all() -> None:
    """Ends all processes that the command has started, and that would go on without it."""
    with suppress(ChildProcessError):  # there are no more
        while True:
            _kill(family(os.getpid())[1:])
            os.waitpid(-1, 0)


class _Command:
    """The command, in the watching process: orders go on to it, and it tells its limits."""

    def __init__(self, process: int, way: socket.socket, limit: int) -> None:
        way.setblocking(False)
        self._process, self._way, self._limit = process, way, limit
        self._rest = b""
        self._folders: dict[bytes, None] = {}
        self._order, self._work = 0, ""
        self._order_until = self._work_until = math.inf

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Gives the command an order, which it has some time to obey."""
        if not self._order:
            self._order, self._order_until = number, time.monotonic() + _PATIENCE_SECONDS
        with suppress(ProcessLookupError):
            os.kill(self._process, number)

    def end(self) -> End:
        """Waits for the end of the command, or ends it, and removes what is left of it."""
        while (end := self._ended()) is None:
            # The end of the command cuts the pause short.
            if select.select([self._way], [], [], _LOOK_SECONDS)[0] and not self._read():
                time.sleep(_ENDING_SECONDS)
        self._read()
        if self._order or os.waitstatus_to_exitcode(end.status) not in range(128):
            _end_all()
        for folder in self._folders:
            remove_abandoned(Path(os.fsdecode(folder)))
        return end

    def _ended(self) -> End | None:
        ended, status = os.waitpid(self._process, os.WNOHANG)
        if ended:
            return End(status)
        used = resident(self._process) if self._limit else 0
        used = used if used > self._limit else 0
        overdue = self._work if time.monotonic() > self._work_until else ""
        if not (used or overdue or time.monotonic() > self._order_until):
            return None
        _kill(family(self._process))
        order = 0 if used or overdue else self._order
        return End(os.waitpid(self._process, 0)[1], used, order, overdue)

    def _read(self) -> int:
        """Takes all messages that have come; gives their number, which is 0 at the end."""
        with suppress(OSError):  # none, or no more
            while received := self._way.recv(1 << 16):
                self._rest += received
        *whole, self._rest = self._rest.split(b"\0")
        for kind, _, content in (message.partition(b" ") for message in whole):
            if kind == _LIMIT:
                self._limit = int(content)
            elif kind == _TIME:
                seconds, _, self._work = content.decode().partition(" ")
                self._work_until = time.monotonic() + float(seconds)
            else:
                self._folders[content] = None
        return len(whole)
