"""A file named as FILE.py is a module like one that is imported."""

import sys
from pathlib import Path

import pytest

from tfmp.shared.commands.user_modules import module_of_file


def test_a_file_is_a_module_once_and_finds_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_test.py").write_text("NUMBER = 7\n")
    path = tmp_path / "named_in_test.py"
    path.write_text("import neighbour_of_test as n\ndef number():\n    return n.NUMBER\n")
    module = module_of_file(path)
    assert module.number() == 7
    assert module_of_file(path) is module
    with pytest.raises(ValueError, match=r"has the name of a module in use; rename the file"):
        module_of_file(_written(tmp_path / "other" / path.name, ""))


def test_a_file_that_fails_is_no_module(tmp_path: Path) -> None:
    path = _written(tmp_path / "broken_in_test.py", "raise OSError('no licence')\n")
    with pytest.raises(OSError, match="no licence"):
        module_of_file(path)
    assert "broken_in_test" not in sys.modules
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*absent\.py'"):
        module_of_file(tmp_path / "absent.py")


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path
