"""docs/cli.md says what --help says, and what it says of shells is tried."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import repository
from click import Context

from tfmp.converters.commands.cli import main

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


# What each shell is told in docs/cli.md.
SET_UP = {
    "bash": 'eval "$(_TFMP_CONVERT_COMPLETE=bash_source tfmp-convert)"',
    "zsh": 'eval "$(_TFMP_CONVERT_COMPLETE=zsh_source tfmp-convert)"',
    "fish": "_TFMP_CONVERT_COMPLETE=fish_source tfmp-convert | source",
}

# Completes $2, from a line typed before it, the way Readline asks bash.
BASH = f"""
{SET_UP["bash"]}
compopt() {{ echo compopt "$@"; }}
COMP_WORDS=($1 "$2"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tfmp_convert_completion tfmp-convert
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(folder: Path, line: str, word: str) -> str:
    """What bash shows, after the line and the beginning of a word."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", line, word],
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder), "TERM": "xterm"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_choices_and_file_names_complete(tmp_path: Path):
    assert "mixed" in complete(tmp_path, "tfmp-convert onnx --precision", "m")
    # bash is told to complete file names by itself.
    assert "compopt -o default" in complete(tmp_path, "tfmp-convert validate", "a_m")


@pytest.mark.skipif(not repository.DOCS.is_dir(), reason="needs the checkout's docs/")
def test_the_docs_give_the_line_for_each_shell():
    assert {*SET_UP.values()} <= {*(repository.DOCS / "cli.md").read_text().splitlines()}


def test_commands_are_described_without_being_cut():
    """Shells have a column for them, and fish ends a description at a comma."""
    found = main.shell_complete(Context(main), "")
    assert {item.value: item.help for item in found}["onnx"] == "Convert MODEL to ONNX."
    assert all(item.help.endswith(".") and "..." not in item.help for item in found)
    assert not any("," in item.help for item in found)
