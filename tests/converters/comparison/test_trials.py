"""Candidates are looked at before anything is run."""

import pytest

from tfmp.converters.comparison.trials import candidate_files
from tfmp.converters.shared.errors import InputError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.onnx", r"missing\.onnx: no such file\. Convert the model first"),
        ("folder.onnx", r"folder\.onnx: is a folder\. Name the converted file itself"),
        ("a\udcff.onnx", r"is not a name in UTF-8.*Rename it\."),
    ],
)
def test_what_is_no_converted_file_is_refused(name: str, message: str, tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(InputError, match=message):
        candidate_files(tmp_path / name)


def test_files_of_the_same_name_are_told_apart(tmp_path):
    paths = [tmp_path / folder / "m.onnx" for folder in ("old", "new")]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    assert [file.name for file in candidate_files(paths)] == ["old/m.onnx", "new/m.onnx"]
    with pytest.raises(InputError, match="is given 2 times as a candidate"):
        candidate_files([paths[0], tmp_path / "new" / ".." / "old" / "m.onnx"])
