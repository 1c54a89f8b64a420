"""Writes the help of the commands into the text blocks of `docs/cli.md`:

python tests/support/cli_page.py docs/cli.md
"""

import re
import sys
from pathlib import Path

import click

from tfmp.converters.commands.cli import main

_WIDTH = 88
_BLOCK = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def page(text: str) -> str:
    """The page with the help of `tfmp-convert` in its first block, and of a command in each other.

    Raises:
        ValueError: it does not have as many blocks.
    """
    whole = _context("tfmp-convert", main, None)
    contexts = [whole, *(_context(*named, whole) for named in main.commands.items())]
    helps = [context.command.get_help(context) + "\n" for context in contexts]
    if len(_BLOCK.findall(text)) != len(helps):
        raise ValueError(f"expected {len(helps)} blocks of text, in the order of the commands")
    return _BLOCK.sub(lambda _: helps.pop(0), text)


def _context(name: str, command: click.Command, parent: click.Context | None) -> click.Context:
    context = click.Context(command, parent, name, **command.context_settings)
    # The same page whatever the terminal is that writes it.
    context.terminal_width = context.max_content_width = _WIDTH
    return context


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text(encoding="utf-8")), encoding="utf-8")
