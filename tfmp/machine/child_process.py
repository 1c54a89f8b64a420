"""Child processes that compute: a clean start, no Ctrl-C of their own, an end with their parent."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from tfmp.machine.measuring import is_out_of_memory
from tfmp.shared.atomic_file import drop_drafts
from tfmp.shared.framework_start import held_back
from tfmp.shared.watched import resident
from tfmp.shared.wording import first_line

# Exit status of a child whose parent has ended; nobody is left to read it.
_ORPHANED = 1

# The pause between two looks at a child's memory: a processor fills some 100 MiB in it.
_LOOK_SECONDS = 0.02

# The messages of `call_apart`'s child.
_STARTED, _RESULT, _FAILED = "started", "result", "failed"


class ApartError(Exception):
    """A call in a process of its own that has no result.

    Attributes:
        out_of_memory: whether the process took too much memory.
    """

    def __init__(self, reason: str, out_of_memory: bool = False) -> None:
        super().__init__(reason)
        self.out_of_memory = out_of_memory


def call_apart(
    function: Callable[..., object],
    *arguments: object,
    memory_limit: int,
    variables: Mapping[str, str] | None = None,
) -> object:
    """Calls a function in a process of its own, which is ended if it takes too much memory.

    Args:
        function: a function at the top of a module.
        *arguments: its arguments; they and the result have to pickle.
        memory_limit: bytes of this computer's memory that the call may take, beside the memory
            of the frameworks that its module imports.
        variables: environment variables of the process, such as those that frameworks read.

    Raises:
        ValueError: the function or an argument cannot be pickled.
        ApartError: the call raised, took too much memory, or its process ended.
    """
    try:
        call = pickle.dumps((function, arguments))
    except Exception as error:
        raise ValueError(
            f"A process of its own expects a call that can be pickled; it cannot be: "
            f"{first_line(error)}. Define functions and classes at the top of a module."
        ) from error
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, call), daemon=True)
    with variables_set(variables or {}), deaf_to_ctrl_c():
        process.start()
    theirs.close()
    at_start: int | None = None
    try:
        while True:
            while not ours.poll(_LOOK_SECONDS):
                if at_start is not None and resident(process.pid or 0) - at_start > memory_limit:
                    raise ApartError("out of memory", out_of_memory=True)
            kind, content = ours.recv()
            if kind == _RESULT:
                return content
            if kind == _FAILED:
                raise ApartError(*content)
            at_start = resident(process.pid or 0)
    except (EOFError, OSError):
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        raise ApartError(why_it_ended(process.exitcode), out_of_memory=killed) from None
    finally:
        process.kill()
        process.join()
        ours.close()


def _answer(pipe: Connection, call: bytes) -> None:
    """The work of `call_apart`'s child."""
    end_with_parent()
    try:
        with held_back():
            function, arguments = pickle.loads(call)
        _tell(pipe, _STARTED, None)
        result = function(*arguments)
    except Exception as error:
        memory = is_out_of_memory(error)
        reason = "out of memory" if memory else f"{type(error).__name__}: {first_line(error)}"
        _tell(pipe, _FAILED, (reason, memory))
        return
    _tell(pipe, _RESULT, result)


def _tell(pipe: Connection, kind: str, content: object) -> None:
    with ending_with_parent():
        pipe.send((kind, content))


@contextmanager
def ending_with_parent() -> Iterator[None]:
    """Ends this process if nobody is at the other end of its pipe: it has nothing left to do.

    A pipe may break before `end_with_parent` notices: that is no error of the work.
    """
    try:
        yield
    except (EOFError, OSError):
        os._exit(_ORPHANED)


def why_it_ended(code: int | None) -> str:
    """The likely reason why a process ended without a result."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        reason = ", as the system does where memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{reason}"
    return (
        f"its process ended without a result (exit status {code}); its own output is above. A "
        "script that starts processes needs `if __name__ == '__main__':` around its own work"
    )


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """A process that starts in this block ignores Ctrl-C.

    A terminal sends Ctrl-C to every process of a command; this process ends the others itself.
    """
    if sys.platform == "win32":
        yield
        return
    # Started along with the first child, it would unblock SIGINT before that child inherits this.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Ends this process when the process that started it has ended in any way."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        drop_drafts()
        os._exit(_ORPHANED)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


@contextmanager
def variables_set(changed: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables in this block, for the processes that it starts."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
