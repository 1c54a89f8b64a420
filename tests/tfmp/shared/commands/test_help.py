"""Help in groups: every option once, below its heading, in the order of the heading."""

from typing import ClassVar

import click
from click.testing import CliRunner

from tfmp.shared.commands.help import GroupedCommand


class Command(GroupedCommand):
    headings: ClassVar = {"First": ("second", "absent"), "Empty": ("absent",)}


@click.command(cls=Command)
@click.argument("name")
@click.option("--first", help="A.")
@click.option("--second", help="B.")
def command(**given: str) -> None:
    """Does nothing."""


def test_options_stand_below_their_headings_and_the_rest_last() -> None:
    lines = CliRunner().invoke(command, ["--help"]).stdout.splitlines()
    assert [line.split()[0] for line in lines[lines.index("First:") :] if line] == [
        "First:",
        "--second",
        "Other",
        "--first",
        "--help",
    ]
