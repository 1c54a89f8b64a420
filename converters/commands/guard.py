"""What is round every command: the meaning of its exit status, whatever happens inside.

A command runs in a process of its own, which a small one watches: native code that crashes on a
damaged file, or takes more memory than there is, then ends in a sentence and status 2.
"""

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.memory import (
    limit_memory,
    memory_limit,
    no_limit,
    shown_size,
)
from tfmp.shared import watched
from tfmp.shared.html_page import printable
from tfmp.shared.wording import full_disk, refused

EXIT_BAD_INPUT = 2

# EX_SOFTWARE of BSD's sysexits.h. Python's own 1 is FAIL here.
EXIT_DEFECT = 70

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")


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
        given = args[0] if args else extra.get("args")
        if given is None and (end := watched.watch(memory_limit())) is not None:
            _leave(end)
        status = _status_of(run)
        if order := watched.order_of():
            watched.leave(order)
        sys.exit(status)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Reads the words of the command."""
        with _ending():
            return super().make_context(*args, **extra)

    def invoke(self, context: click.Context) -> Any:
        """Runs the command that was read."""
        with _ending():
            return super().invoke(context)


@contextmanager
def _ending() -> Iterator[None]:
    """Hears Ctrl-C before click does, which writes an empty line for it."""
    try:
        yield
    except KeyboardInterrupt as error:
        sys.exit(status_of(error))


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
    order = watched.order_of(error) or signal.SIGINT * isinstance(error, click.exceptions.Abort)
    if order:  # click's own status, 1, is FAIL here
        say(watched.told(order))
        return watched.status_of(order)
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        say(shown.getvalue().rstrip("\n"))
        return EXIT_BAD_INPUT
    full = full_disk(error)
    # A worker process that meets a full disk tells it in a text without a next step.
    if isinstance(error, InputError) and not (full and str(error).endswith(f"{full.strerror}.")):
        say(f"Error: {error}")
        return EXIT_BAD_INPUT
    refusal = full or (error if isinstance(error, OSError) else None)
    if refusal:
        say(f"Error: {refused(refusal)}")
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
        watched.settle(stream)
    if isinstance(status, str):
        say(status)
        return EXIT_DEFECT
    return status or 0


def set_limit(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Limits the memory of this process, and tells so to the one that watches it."""
    if text is None:
        no_limit()
        return None
    try:
        watched.tell_limit(limit_memory(text))
    except InputError as error:
        raise click.UsageError(str(error)) from error
    return text


def _leave(end: watched.End) -> NoReturn:
    """Ends like the command, or with the reason why it did not end by itself."""
    if end.used:
        say(
            f"Error: the command took {shown_size(end.used)} of memory, more than its limit, and "
            "was stopped. A damaged file may ask for any amount: check the model and the data, or "
            "allow more with --max-memory."
        )
        os._exit(EXIT_BAD_INPUT)
    if end.overdue:
        say(
            f"Error: {end.overdue} takes far longer than that of a sound file, and was stopped: a "
            "loop in the file may have no end, or the file is damaged. Copy or save it again; if "
            "you trust its source, give it all the time that it takes with --unsafe-load."
        )
        os._exit(EXIT_BAD_INPUT)
    if end.order:
        say(watched.told(end.order))
        os._exit(watched.status_of(end.order))
    if not os.WIFSIGNALED(end.status):
        os._exit(os.waitstatus_to_exitcode(end.status))
    name = signal.Signals(os.WTERMSIG(end.status)).name
    if name in _CRASHES or name == "SIGKILL":
        cause = "as the system does when memory runs out" if name == "SIGKILL" else "in native code"
        say(
            f"Error: the command was ended by {name}, {cause}. The model or the data may be "
            "damaged: check them, or make them again. If they are sound, report this with them."
        )
        os._exit(EXIT_BAD_INPUT)
    os._exit(128 + os.WTERMSIG(end.status))
