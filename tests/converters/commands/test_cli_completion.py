"""Completion of `tfmp-convert` in the shells themselves, by the lines that docs/cli.md gives."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tfmp.converters.commands.docs import page

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

# A terminal of zsh's own, in which the line is typed, and then Tab.
ZSH = f"""
zmodload zsh/zpty
zpty terminal zsh -f -i
zpty -w terminal 'PS1=; autoload -Uz compinit; compinit -u -D
{SET_UP["zsh"]}
bindkey "^I" complete-word; print RE"ADY"'
zpty -r -m terminal line '*READY*'
zpty -w -n terminal "$1 $2"$'\\t'
zpty -r -m terminal line "*$3*"
print -r -- "$line"
"""

FISH = f"""
{SET_UP["fish"]}
complete -C "$argv[1] $argv[2]"
"""


def complete(shell: str, folder: Path, line: str, word: str, expected: str) -> str:
    """What the shell shows, after the line and the beginning of a word."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    command = {
        "bash": [program, "--norc", "-c", BASH, "bash"],
        "zsh": [program, "-f", "-c", ZSH, "zsh"],
        "fish": [program, "--no-config", "-c", FISH],
    }[shell]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    run = subprocess.run(
        [*command, line, word, expected],
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder), "TERM": "xterm"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("shell", SET_UP)
def test_choices_complete(shell, tmp_path):
    assert "mixed" in complete(shell, tmp_path, "tfmp-convert onnx --precision", "m", "mixed")


@pytest.mark.parametrize("shell", SET_UP)
def test_file_names_complete(shell, tmp_path):
    (tmp_path / "a_model.keras").touch()
    shown = complete(shell, tmp_path, "tfmp-convert validate", "a_m", "a_model.keras")
    # bash is told to complete file names by itself.
    assert ("compopt -o default" if shell == "bash" else "a_model.keras") in shown


@pytest.mark.parametrize("shell", SET_UP)
def test_the_docs_give_the_line_that_is_tried_here(shell):
    assert SET_UP[shell] in page().splitlines()


def test_commands_are_described_without_being_cut(tmp_path):
    """Shells have a column for them, and fish ends a description at a comma."""
    shown = complete("fish", tmp_path, "tfmp-convert", "", "")
    described = dict(line.split("\t") for line in shown.splitlines() if line)
    assert described["onnx"] == "Convert MODEL to ONNX."
    assert all(text.endswith(".") and "..." not in text for text in described.values())
