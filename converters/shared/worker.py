"""A second Python process that executes one object's methods, and keeps their crashes and leaks.

Not `multiprocessing`: its spawn method imports the caller's `__main__` again, which runs a user's
script twice unless it is guarded. Here the child imports the named module and nothing of the
caller's. Requests and replies are pickles over the child's standard input and output. All that
native code prints goes to a log, of which a user sees only the line that names the fault.
"""

import atexit
import io
import json
import os
import pickle
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, BinaryIO, Self

from tfmp.converters.shared.errors import ConversionError, InputError, MachineError, RunnerError
from tfmp.shared.atomic_file import drop_drafts

# How long a child that was told to end may take before it is killed.
_GOODBYE_SECONDS = 5.0
_LOG_TAIL_BYTES = 1 << 20
# Uses of a worker that is kept: a start takes five seconds of a core, and TensorFlow leaks about
# 22 MB with each conversion.
_MOST_USES = 30

# The child imports what the caller would: the same search path, and nothing from the working
# directory unless the caller has it there.
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tfmp.converters.shared.worker import serve
serve(sys.argv[2])
"""

_TELLING = re.compile(
    r"\berror\b|\bfatal\b|check failed|terminate called|what\(\):|bad_alloc|out of memory"
    r"|segmentation fault|^F\d{4} ",
    re.IGNORECASE,
)
# TensorFlow and LiteRT print these on every healthy start of a machine without a GPU or an NPU.
_NOISE = re.compile(
    r"cuda|cudnn|cublas|cufft|tensorrt|libopenvino|Failed to load plugin|Could not load shared"
    r"|NPU accelerator|oneDNN|absl::InitializeLog",
    re.IGNORECASE,
)


class WorkerError(RunnerError):
    """A call into a worker process that did not return.

    Attributes:
        reason: the cause, without the worker's name.
        log: the text that the worker printed during the call.
    """

    def __init__(self, label: str, reason: str, log: str) -> None:
        line = telling_line(log)
        super().__init__(f"{label}: {reason}" + (f" ({line})" if line else "") + ".")
        self.reason = reason
        self.log = log


class Worker:
    """Holds one object in a process of its own, and calls its methods there.

    The process starts at once and imports the object's module while the caller does other work;
    the first `call` waits for it. Use it as a context manager: leaving it ends the process.
    """

    def __init__(
        self,
        target: str,
        *args: object,
        label: str,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the process.

        Args:
            target: the class to construct there, as "package.module:Class".
            *args: arguments of the class; they have to pickle.
            label: the worker's name in error messages, such as "LiteRT".
            timeout_s: longest time of one call, and of the start, in seconds.
            environment: variables that are added to the caller's, or replace them.

        Raises:
            MachineError: no process can be started.
        """
        self._label, self._timeout_s = label, timeout_s
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self._log_start = 0
        command = [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path), target]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            self._log.close()
            raise MachineError(
                f"{label}: no worker process could be started from Python at "
                f"{sys.executable!r} ({error.strerror}). Free memory or processes, and check that "
                "this interpreter exists."
            ) from error
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._send(args)
        self._started = False
        self._unusable: RunnerError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def call(
        self, method: str, *args: object, hear: Callable[..., object] = lambda *news: None
    ) -> Any:
        """Calls `method` of the object and returns its result.

        Args:
            method: its name.
            *args: its arguments; they have to pickle.
            hear: called with the arguments of every `tell` in the process.

        Raises:
            InputError, ConversionError, RunnerError, MachineError: as the method raised it.
            MachineError: the process ended before, or while, it imported the object's module.
            WorkerError: the method raised anything else or took too long, or the process died.
        """
        if not self._started:
            self._started = True
            try:
                self._receive_import()
                self._receive()
            except RunnerError as error:
                self._unusable = error
                raise
        if self._unusable is not None:
            raise self._unusable
        self._log_start = self._log.seek(0, io.SEEK_END)
        self._send((method, args))
        return self._receive(hear)

    @property
    def alive(self) -> bool:
        """Whether the process can take further calls."""
        return self._unusable is None and self._process.poll() is None

    def log(self) -> str:
        """The last mebibyte of the text that the process has printed since it started."""
        return self._read_log(0)

    def close(self) -> None:
        """Ends the process; harmless when it has ended already."""
        if self._log.closed:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # the child takes this as goodbye
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        self._log.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            try:
                while True:
                    self._replies.put(pickle.load(stream))
            except (EOFError, pickle.UnpicklingError):
                self._replies.put(None)

    def _send(self, message: tuple[object, ...]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the child is gone; `_receive` says why
            pickle.dump(message, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()

    def _receive_import(self) -> None:
        try:
            self._receive()
        except WorkerError as error:
            raise MachineError(
                f"{error} It cannot start on this machine with any model: install the package or "
                "the library that is missing."
            ) from error

    def _receive(self, hear: Callable[..., object] = lambda *news: None) -> Any:
        try:
            while (reply := self._replies.get(timeout=self._timeout_s)) and reply[0] == "news":
                hear(*reply[1])
        except queue.Empty:
            self._kill()
            raise self._failure(
                f"no answer within {self._timeout_s:g} s, so it was stopped; give it more time "
                "or a smaller model or batch"
            ) from None
        if reply is None:
            self._replies.put(None)  # later calls find the same end
            raise self._failure(_describe_exit(self._process.wait()))
        kind, value = reply
        if kind == "result":
            return value
        if kind in _USER_ERRORS:
            raise _USER_ERRORS[kind](value)
        raise self._failure(f"{kind}: {value}" if value else kind)

    def _failure(self, reason: str) -> WorkerError:
        return WorkerError(self._label, reason.rstrip("."), self._read_log(self._log_start))

    def _read_log(self, start: int) -> str:
        end = self._log.seek(0, io.SEEK_END)
        self._log.seek(max(start, end - _LOG_TAIL_BYTES))
        return self._log.read().decode(errors="replace")

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()


_idle: dict[tuple[int, str], tuple[Worker, int]] = {}  # by owner and target: with its uses


@contextmanager
def kept_worker(target: str, **options: Any) -> Iterator[Worker]:
    """A worker that is kept for the next block; a block may close it.

    Args:
        target: see `Worker`; it takes no arguments.
        **options: of a new `Worker`.
    """
    key = os.getpid(), target
    worker, uses = _idle.pop(key) if key in _idle else (Worker(target, **options), 0)
    answered = False
    try:
        yield worker
        answered = True
    except (InputError, RunnerError):
        answered = True  # and by an interrupt, say, the next answer would be an old one
        raise
    finally:
        if answered and worker.alive and uses + 1 < _MOST_USES and key not in _idle:
            _idle[key] = worker, uses + 1
        else:
            worker.close()


@atexit.register
def close_idle() -> None:
    """Ends the workers that this process keeps."""
    for key in [key for key in _idle if key[0] == os.getpid()]:
        _idle.pop(key)[0].close()


_USER_ERRORS = {
    kind.__name__: kind for kind in (InputError, ConversionError, RunnerError, MachineError)
}


def telling_line(log: str) -> str | None:
    """The first line of `log` that names a fault, or None."""
    for line in log.splitlines():
        if _TELLING.search(line) and not _NOISE.search(line):
            return line.strip()[:300]
    return None


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"the process ended by itself with status {status}"
    name = signal.Signals(-status).name
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def serve(target: str) -> None:
    """The child's side: constructs the target and answers calls until its input closes."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # orders to all are the caller's to handle
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    requests, replies = _take_standard_streams()
    _told.append(replies)
    incoming: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests, incoming), daemon=True).start()
    held: list[Any] = []  # the class, and then the object

    def load() -> None:  # while the caller does other work
        module, _, name = target.partition(":")
        held.append(getattr(import_module(module), name))

    def construct() -> None:
        held[0] = held[0](*incoming.get())

    def call() -> object:
        method, args = incoming.get()
        return getattr(held[0], method)(*args)

    _reply(replies, load)
    _reply(replies, construct)
    while True:
        _reply(replies, call)


_told: list[BinaryIO] = []  # in the child: the way to its caller


def tell(*news: object) -> None:
    """Sends news of a call that goes on to its caller; see `Worker.call`."""
    _write(_told[0], pickle.dumps(("news", news)))


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keeps the two pipes for messages alone; prints of any code then go to the log."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, replies


def _read_requests(requests: BinaryIO, incoming: "queue.SimpleQueue[Any]") -> None:
    with suppress(Exception):  # the end, or a name that this process cannot import
        while True:
            incoming.put(pickle.load(requests))
    # The caller closed the pipe or died: leave, whatever the main thread is stuck in.
    drop_drafts()
    os._exit(0)


def _reply(replies: BinaryIO, work: Callable[[], object]) -> None:
    try:
        message = pickle.dumps(("result", work()), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        told = error.refusal if isinstance(error, InputError) else str(error)
        message = pickle.dumps((type(error).__name__, told))
    _write(replies, message)


def _write(replies: BinaryIO, message: bytes) -> None:
    sys.stdout.flush()
    replies.write(message)
    replies.flush()
