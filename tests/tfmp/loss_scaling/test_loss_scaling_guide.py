"""docs/loss-scaling.md: its code runs from top to bottom, on JAX the blocks for JAX."""

import keras
import pytest
from repository import DOCS, blocks

ON_JAX = keras.backend.backend() == "jax"
PAGE = (DOCS / "loss-scaling.md").read_text()


def code() -> str:
    """The blocks for this backend in one piece, as a reader would paste them one after another."""
    found = blocks(PAGE, "python")
    return "\n".join(block for block in found if block.startswith("# JAX") is ON_JAX)


@pytest.mark.slow
def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code(), {"__name__": "loss_scaling"})
    assert ON_JAX or (tmp_path / "gradients.json").exists()
