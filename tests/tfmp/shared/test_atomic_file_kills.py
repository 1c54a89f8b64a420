"""Runs that are killed at random moments leave whole files, and no traces after the next run."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "killed_runs.py"


@pytest.mark.slow
def test_runs_that_are_killed_leave_whole_files(tmp_path: Path):
    """`python tests/support/killed_runs.py 500` takes half an hour."""
    command = [sys.executable, "-W", "ignore", SCRIPT, "8"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    assert done.stdout.count("killed ") == 8
