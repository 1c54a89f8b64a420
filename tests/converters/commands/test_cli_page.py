"""docs/cli.md says what --help says, and what it says of shells is tried."""

import subprocess
import sys
from pathlib import Path

import pytest
import repository

DOCS = repository.DOCS / "cli.md"


@pytest.mark.skipif(not DOCS.is_file(), reason="needs the checkout's docs/")
def test_the_page_is_what_the_commands_say(tmp_path: Path):
    # In a process of its own, as documented: click remembers help options of earlier contexts.
    page = tmp_path / "cli.md"
    page.write_bytes(DOCS.read_bytes())
    command = [sys.executable, str(repository.SUPPORT / "cli_page.py")]
    subprocess.run([*command, page], check=True)
    assert DOCS.read_bytes() == page.read_bytes(), (
        f"write it again: {' '.join(command)} docs/cli.md"
    )
