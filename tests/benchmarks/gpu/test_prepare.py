"""benchmarks/gpu/prepare.py and run.py: pieces that travel, and those that do not."""

import sys
from pathlib import Path

import pytest
from repository import BENCHMARKS
from scripts import script

GPU = BENCHMARKS / "gpu"


@pytest.fixture
def prepare(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    return script(GPU / "prepare.py")


@pytest.fixture
def run():
    return script(GPU / "run.py")


def test_a_wheel_is_whole_again_behind_its_pieces(prepare, run, tmp_path: Path):
    wheel = tmp_path / "runtime-1.0-py3-none-any.whl"
    wheel.write_bytes(bytes(range(256)) * 40)
    folders = prepare.cut(wheel, tmp_path, 4_000)
    assert [folder.name for folder in folders] == ["piece-1", "piece-2", "piece-3"]
    run.STORE = tmp_path / "store"
    for folder in folders[:2]:
        run.take(folder)
    assert run.joined(run.STORE) == ([], ["runtime-1.0-py3-none-any.piece3"])
    run.take(folders[2])
    (joined,), missing = run.joined(run.STORE)
    assert missing == []
    assert joined.name == wheel.name
    assert joined.read_bytes() == wheel.read_bytes()


def test_pieces_of_another_wheel_are_refused(prepare, run, tmp_path: Path):
    wheel = tmp_path / "runtime-1.0-py3-none-any.whl"
    wheel.write_bytes(b"one" * 100)
    run.STORE = tmp_path / "store"
    for folder in prepare.cut(wheel, tmp_path, 200):
        run.take(folder)
    (run.STORE / "runtime-1.0-py3-none-any.piece1").write_bytes(b"other" * 30)
    with pytest.raises(SystemExit, match="do not make the wheel"):
        run.joined(run.STORE)


def test_every_call_fits_the_tool(prepare, tmp_path: Path):
    pieces = [tmp_path / "piece-1", tmp_path / "piece-2"]
    calls = prepare.calls(tmp_path, pieces)
    assert len(calls) == len(pieces) + len(prepare.stage.STAGES)
    assert all(call["timeout_s"] <= 600 and len(call["command"]) <= 2000 for call in calls)
    assert sum(seconds for _, seconds, _ in prepare.stage.STAGES.values()) <= 25 * 60
    assert all(seconds <= 8 * 60 for _, seconds, _ in prepare.stage.STAGES.values())
