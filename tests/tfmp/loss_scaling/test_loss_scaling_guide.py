"""docs/loss-scaling.md: its code runs from top to bottom, on JAX the blocks for JAX."""

import re

import keras
import pytest
from repository import DOCS

from tfmp.commands.cli import main

ON_JAX = keras.backend.backend() == "jax"
PAGE = (DOCS / "loss-scaling.md").read_text()


def code() -> str:
    """The blocks for this backend in one piece, as a reader would paste them one after another."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return "\n".join(block for block in blocks if block.startswith("# JAX") is ON_JAX)


@pytest.mark.slow
def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code(), {"__name__": "loss_scaling"})
    assert ON_JAX or (tmp_path / "gradients.json").exists()


def test_its_commands_exist():
    named = re.findall(r"`tfmp (\w+)", PAGE)
    assert named
    assert set(named) <= set(main.list_commands(None))
