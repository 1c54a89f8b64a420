"""The start and the end of every `tfmp` command: no messages at the start, one after an order."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import click

from tfmp.shared import watched
from tfmp.shared.wording import first_line, full_disk, refused


@contextmanager
def session() -> Iterator[None]:
    """Turns Ctrl-C and SIGTERM into one line and a status of its own; 1 means something else."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        yield
    except BaseException as error:
        order = watched.order_of(error)
        told = isinstance(error, click.ClickException)
        if not order and not told and (full := full_disk(error)):
            _say(f"Error: {refused(full)}")
            watched.settle(sys.stdout)
            raise click.exceptions.Exit(2) from None
        if not order:
            raise
        _say(watched.told(order))
        raise click.exceptions.Exit(watched.status_of(order)) from None


def watch() -> None:
    """Goes on in a process that this one watches, and ends like it."""
    end = watched.watch()
    if end is None:
        return
    if end.order:
        _say(watched.told(end.order))
        os._exit(watched.status_of(end.order))
    if not os.WIFSIGNALED(end.status):
        os._exit(os.waitstatus_to_exitcode(end.status))
    number = os.WTERMSIG(end.status)
    _say(f"Error: the command was ended by {signal.Signals(number).name}.")
    os._exit(watched.status_of(number))


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody can read it
        click.echo(text, err=True)


def import_keras() -> None:
    """Imports Keras and its backend without the messages that they print on every start.

    TensorFlow is imported on other backends too, where it is installed: Keras loads it for its
    data, in the middle of other output.

    Raises:
        click.UsageError: the backend cannot be loaded.
    """
    from tfmp.shared.framework_start import held_back

    try:
        with held_back():
            import keras  # noqa: F401

            if find_spec("tensorflow") is not None:
                import tensorflow  # noqa: F401
    except (ImportError, ValueError) as error:
        backend = os.environ.get("KERAS_BACKEND") or "of ~/.keras/keras.json, or tensorflow"
        raise click.UsageError(
            f"Keras and its backend ({backend}) cannot be loaded: {first_line(error)}. Set "
            "KERAS_BACKEND to tensorflow, jax or torch, and install that package."
        ) from error
