"""Paths are checked before any work is done for them."""

import os
from pathlib import Path

import pytest

from tfmp.converters.comparison import candidate_files
from tfmp.converters.intake.open import check_model_file
from tfmp.converters.samples.files import open_path
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_folder, check_output


def test_paths_that_are_fine(tmp_path):
    check_output(tmp_path / "model.onnx", ".onnx", force=False)
    check_output(tmp_path / "no" / "such" / "model.onnx", ".onnx", force=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there.onnx").write_text("old")
    check_output(tmp_path / "there.onnx", ".onnx", force=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.pb", r"expected an output file ending in .onnx, received suffix '.pb'"),
        ("there.onnx", r"already exists. Choose another output, or replace it with --force"),
        ("there.onnx/model.onnx", r"there.onnx': Not a directory. Choose another folder"),
        ("there.onnx/no/such/model.onnx", r"no/such': Not a directory. Choose another folder"),
        ("folder.onnx", r"is a folder. Name a file"),
        ("pipe.onnx", r"is a device or a pipe. Name a file"),
    ],
)
def test_paths_that_cannot_be_written_are_named(tmp_path, name, message):
    (tmp_path / "there.onnx").write_text("precious")
    (tmp_path / "folder.onnx").mkdir()
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(InputError, match=message) as caught:
        check_output(tmp_path / name, ".onnx", force=False)
    assert str(tmp_path) in str(caught.value)


def test_a_folder_without_rights_is_refused(tmp_path, monkeypatch):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    # Rights on paper do not stop root, so the refusal itself is put in.
    monkeypatch.setattr("tfmp.shared.report_files.tempfile.TemporaryFile", refuse)
    with pytest.raises(
        InputError, match=r"can be written to; received .*: Read-only file system\."
    ):
        check_folder(tmp_path)


def test_a_link_to_nothing_exists(tmp_path):
    (tmp_path / "a.onnx").symlink_to(tmp_path / "gone.onnx")
    with pytest.raises(InputError, match=r"a\.onnx: already exists"):
        check_output(tmp_path / "a.onnx", ".onnx", force=False)
    check_output(tmp_path / "a.onnx", ".onnx", force=True)


@pytest.mark.parametrize("name", ["a\udcff.onnx", "a\0.onnx"])
def test_a_name_that_is_no_text_is_refused(name: str, tmp_path):
    with pytest.raises(InputError, match=r"is not a name in UTF-8"):
        check_output(tmp_path / name, ".onnx", force=False)
    check_output(tmp_path / "ä[/x].onnx", ".onnx", force=False)


@pytest.mark.parametrize("name", ["m.onnx", "m.keras", "m.pb", "saved", "m.tflite", "x.npz"])
def test_a_pointer_of_git_lfs_is_named_wherever_a_file_is_read(name: str, tmp_path: Path):
    path = pointer = tmp_path / name
    if not path.suffix:
        path.mkdir()
        pointer = path / "saved_model.pb"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n")
    read = {
        ".npz": lambda path: open_path(str(path), ()),
        ".tflite": candidate_files,
    }.get(path.suffix, check_model_file)
    with pytest.raises(InputError, match=r"pointer of Git LFS.*git lfs pull"):
        read(path)
