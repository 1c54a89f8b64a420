"""What surrounds every `tfmp` command: a quiet start, and Ctrl-C that ends it with one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

# What shells report of a program that Ctrl-C ended: 128 + SIGINT.
EXIT_INTERRUPTED = 130


@contextmanager
def session() -> Iterator[None]:
    """Turns Ctrl-C into a line and a status of its own: 1 has a meaning in every command."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def import_keras() -> None:
    """Imports Keras and its backend without what they print on every start.

    TensorFlow too where JAX computes: Keras loads it for its data, in the middle of other output.
    """
    from tfmp.shared.framework_start import held_back

    with held_back():
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
