"""docs/cli.md says what --help says, and what it says of shells is tried."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("val", {"plain,validate"}),
        ("onnx --keep", {"plain,--keep-fp32"}),
        ("onnx --precision ", {"plain,fp16", "plain,fp32"}),
        ("onnx mod", {"file,mod"}),
        ("onnx m.keras --data te", {"file,te"}),
    ],
)
def test_commands_options_choices_and_files_complete(words, expected):
    words = f"tfmp-convert {words}"
    told = {
        **os.environ,
        "_TFMP_CONVERT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    program = Path(sys.executable).with_name("tfmp-convert")
    run = subprocess.run([program], env=told, capture_output=True, text=True)
    assert expected <= set(run.stdout.split())
    assert run.stderr == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_documented_line():
    line = 'eval "$(_TFMP_CONVERT_COMPLETE=bash_source tfmp-convert)"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-ec", f"{line}\ncomplete -p tfmp-convert"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "_tfmp_convert_completion" in run.stdout
