"""docs/loss-scaling.md: its code runs from top to bottom, on JAX what is for JAX."""

import os
import re
import subprocess
import sys

from repository import DOCS

from tfmp.commands.cli import main

PAGE = (DOCS / "loss-scaling.md").read_text()


def code(jax: bool) -> str:
    """The blocks in one piece, as a reader would paste them one after another."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return "\n".join(block for block in blocks if block.startswith("# JAX") is jax)


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code(jax=False), {"__name__": "loss_scaling"})
    assert (tmp_path / "gradients.json").exists()


def test_the_code_for_jax_runs():
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:tfmp", "-c", code(jax=True)],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_its_commands_exist():
    named = re.findall(r"`tfmp (\w+)", PAGE)
    assert named
    assert set(named) <= set(main.list_commands(None))
