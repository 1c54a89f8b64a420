"""benchmarks/gpu/run.py: what it needs before it measures."""

import sys
from pathlib import Path

import pytest
from repository import BENCHMARKS
from scripts import script

GPU = BENCHMARKS / "gpu"


@pytest.fixture
def run(tmp_path: Path):
    found = script(GPU / "run.py")
    found.STORE, found.SITE = tmp_path / "store", tmp_path / "store" / "site"
    return found


def status(run, monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    return run.main()


def test_a_machine_that_has_lost_the_corpus_says_what_to_take(run, monkeypatch, capsys):
    assert status(run, monkeypatch, "training") == 2
    assert "take build/gpu/base first" in capsys.readouterr().err


def test_no_runtime_is_measured_but_the_one_in_pieces(run, monkeypatch, capsys, tmp_path: Path):
    (run.STORE / "corpus").mkdir(parents=True)
    (run.STORE / "corpus" / "manifest.json").write_text("{}")
    assert status(run, monkeypatch, "onnx") == 2
    assert "take build/gpu/piece-1 and on" in capsys.readouterr().err


def test_a_folder_that_the_call_does_not_carry_is_told(run, monkeypatch):
    with pytest.raises(SystemExit, match="a folder that this call carries"):
        status(run, monkeypatch, "keep", "--take", "no/such/folder")


def test_libraries_of_cuda_are_found_among_the_packages(run, monkeypatch, tmp_path: Path):
    for name in ("cu13", "cudnn"):
        (tmp_path / "packages" / "nvidia" / name / "lib").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    folders = [Path(folder).parent.name for folder in run.cuda_libraries()]
    assert {"cu13", "cudnn"} <= set(folders)
