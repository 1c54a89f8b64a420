"""Help of commands with many options: in groups with headings, the common ones first."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click

# Columns for the names of options; a longer one has a line of its own.
_NAMES = 25
_REST = "Other options"


class GroupedCommand(click.Command):
    """A command whose help lists its options below headings.

    Attributes:
        headings: names of options by heading, both in the order in which they are shown. What no
            heading has comes last.
    """

    headings: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a section for each heading of which there are options."""
        lines = {
            str(parameter.name): line
            for parameter in self.get_params(context)
            if isinstance(parameter, click.Option) and (line := parameter.get_help_record(context))
        }
        for heading, names in [*self.headings.items(), (_REST, list(lines))]:
            if found := [lines.pop(name) for name in names if name in lines]:
                with formatter.section(heading):
                    formatter.write_dl(found, col_max=_NAMES)
