"""A place that takes no more is named, whatever is written there."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_graphs import parse

from tfmp.converters.commands.cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of files' sizes")

# Room for a lock, and for none of the outputs.
ROOM_BYTES = 128


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An ONNX file, y = x w."""
    text = "agraph (float[n, 32] x) => (float[n, 32] y) { y = MatMul(x, w) }"
    onnx.save(parse(text, w=np.ones((32, 32), np.float32)), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import resource

    # Python would cut the code of modules that it compiles now, and stumble over it for ever.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


OUTPUTS = [
    ("onnx", "-o", "out.onnx", []),
    ("onnx", "-o", "new/out.onnx", ["--external-data"]),
    *(("validate", "--report", f"out{end}", []) for end in (".json", ".html", ".md", ".xml")),
    ("validate", "--report", "new/out.card.md", []),
]


@pytest.mark.parametrize(("command", "option", "output", "more"), OUTPUTS)
def test_the_output_is_named(model, no_room, capsys, command, option, output, more) -> None:
    files = [model, model] if command == "validate" else [model]
    path = model.parent / output
    with pytest.raises(SystemExit) as ended:
        main(args=[command, *map(str, files), option, str(path), "--quiet", *more])
    assert ended.value.code == 2
    assert f"Error: {path}: the system refuses this (File too large)." in capsys.readouterr().err
    assert [each.name for each in model.parent.iterdir()] == ["m.onnx"]
