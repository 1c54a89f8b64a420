"""docs/cli.md says what --help says, and what it says of shells is tried."""

import subprocess
import sys

import pytest
import repository

DOCS = repository.DOCS / "cli.md"


@pytest.mark.skipif(not DOCS.is_file(), reason="needs the checkout's docs/")
def test_the_page_is_what_the_commands_say():
    # In a process of its own, as documented: click remembers help options of earlier contexts.
    command = [sys.executable, "-m", "tfmp.converters.commands.docs"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert DOCS.read_text(encoding="utf-8") == page, (
        "write it again: python -m tfmp.converters.commands.docs > docs/cli.md"
    )
