"""The kinds of values that options take.

They say nothing about a value that cannot be used: the converters do, in the same words as to a
caller in Python.
"""

from typing import Any

import click


class Choices(click.Choice):
    """Choices that the help shows and shells complete."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


class Number(click.ParamType):
    """A whole number; a text that is no number stays a text."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return int(value)
        except ValueError:
            return value
