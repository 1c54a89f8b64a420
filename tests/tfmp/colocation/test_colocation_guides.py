"""docs/colocate.md and docs/graph-rewrite.md: their code runs, their output is what is printed."""

import keras
import pytest
import tensorflow as tf
from repository import DOCS, blocks


@pytest.fixture
def ran(request, tmp_path, monkeypatch, capsys) -> str:
    """What the code of a page prints, from top to bottom."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for code in blocks((DOCS / request.param).read_text(), "python"):
        # A file, so that TensorFlow finds the source of functions.
        path = tmp_path / f"block_{len(list(tmp_path.glob('*.py')))}.py"
        path.write_text(code)
        exec(compile(code, str(path), "exec"), names)
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("ran", ["colocate.md"], indirect=True)
def test_the_colocate_page(ran):
    assert "single  float32" in ran
    assert "RuntimeError: no such architecture" in ran


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it rewrites graphs")
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="printed without a GPU")
@pytest.mark.slow
@pytest.mark.parametrize("ran", ["graph-rewrite.md"], indirect=True)
def test_the_graph_rewrite_page(ran):
    assert ran.startswith(blocks((DOCS / "graph-rewrite.md").read_text(), "text")[0])
    assert "\n32768.0\n" in ran
    assert ran.splitlines()[-1] == "{'float16'} float32"
