"""A file is replaced whole, or not at all."""

import os
import stat

import pytest

from tfmp.shared.atomic_file import replacing


def test_success_replaces_the_file_with_ordinary_rights(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("old")
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".onnx"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("old")

    def fail_halfway() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_missing_folders_are_made(tmp_path):
    with replacing(tmp_path / "a" / "b" / "model.onnx") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a" / "b" / "model.onnx").read_text() == "new"


@pytest.mark.parametrize(("others", "left"), [((), []), (("a/of_another",), ["a"])])
def test_failure_removes_the_folders_that_were_made(tmp_path, others, left):
    def fail_halfway() -> None:
        with replacing(tmp_path / "a" / "b" / "model.onnx"):
            for name in others:
                (tmp_path / name).write_text("precious")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert os.listdir(tmp_path) == left
    assert not (tmp_path / "a" / "b").exists()


def test_failure_leaves_a_folder_that_was_there(tmp_path):
    def fail_halfway() -> None:
        with replacing(tmp_path / "model.onnx"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert tmp_path.is_dir()
