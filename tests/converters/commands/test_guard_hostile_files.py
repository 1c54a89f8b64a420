"""Damaged files: each is opened, or refused in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "hostile_files.py"


@pytest.mark.slow
def test_damaged_files_are_opened_or_refused(tmp_path: Path):
    """`python tests/support/hostile_files.py` tries 20,000."""
    command = [sys.executable, "-W", "ignore", SCRIPT, "--count", "250", "--keep", tmp_path / "bad"]
    done = subprocess.run(command, capture_output=True, text=True)
    kept = "\n".join(path.read_text() for path in sorted((tmp_path / "bad").glob("*.txt")))
    assert done.returncode == 0, f"{done.stdout}\n{kept}\n{done.stderr[-2000:]}"
    assert "| all | 249 |" in done.stdout
