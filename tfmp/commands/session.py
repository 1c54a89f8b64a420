"""The start and the end of every `tfmp` command: no messages at the start, one after Ctrl-C."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

# The exit status that shells report for a program that Ctrl-C ended: 128 + SIGINT.
EXIT_INTERRUPTED = 130


@contextmanager
def session() -> Iterator[None]:
    """Turns Ctrl-C into one line and its own status, because 1 has a meaning in every command."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def import_keras() -> None:
    """Imports Keras and its backend without the messages that they print on every start.

    TensorFlow is imported on JAX too: Keras loads it for its data, in the middle of other output.
    """
    from tfmp.shared.framework_start import held_back

    with held_back():
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
