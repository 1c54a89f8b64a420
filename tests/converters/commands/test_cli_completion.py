"""Completion of `tfmp-convert` in bash, by the lines that docs/cli.md gives for every shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import repository
from click import Context

from tfmp.converters.commands.cli import main

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
