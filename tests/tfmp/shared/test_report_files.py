"""Files and folders that users name for results."""

import json
from pathlib import Path

import pytest

from tfmp.shared.report_files import (
    check_folder,
    check_report_path,
    read_json,
    writing_report,
)

SUFFIXES = (".json", ".html")


def test_a_report_needs_a_known_suffix_and_a_folder(tmp_path):
    assert check_report_path(str(tmp_path / "r.html"), SUFFIXES) == tmp_path / "r.html"
    with pytest.raises(ValueError, match=r"suffixes \.json, \.html; received '.*r\.txt'"):
        check_report_path(tmp_path / "r.txt", SUFFIXES)
    with pytest.raises(ValueError, match=r"folder that exists.* Create '.*missing' first"):
        check_report_path(tmp_path / "missing" / "r.json", SUFFIXES)
    (tmp_path / "r.html").mkdir()
    with pytest.raises(ValueError, match=r"r\.html' is a folder\. Choose another name"):
        check_report_path(tmp_path / "r.html", SUFFIXES)
    # No right to write there, for root either.
    with pytest.raises(ValueError, match=r"can be written to; received '/proc/r\.json': "):
        check_report_path("/proc/r.json", SUFFIXES)
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_a_report_is_written_whole_or_refused_in_words(tmp_path):
    with writing_report(tmp_path / "r.json") as new:
        new.write_text("{}")
    assert (tmp_path / "r.json").read_text() == "{}"
    with writing_report(tmp_path / "made" / "r.json") as new:
        new.write_text("{}")
    assert (tmp_path / "made" / "r.json").read_text() == "{}"
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match=r"can be written to; received '.*r\.json': "),
        writing_report(tmp_path / "file" / "r.json"),
    ):
        pass


def test_a_folder_for_logs_is_made_or_refused_in_words(tmp_path: Path):
    assert check_folder("folder", tmp_path / "a" / "b", make=False) == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(ValueError, match="folder expects a folder that can be written to"):
            check_folder("folder", path, make=False)
    assert check_folder("log_dir", tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"log_dir expects a folder .* received '.*file': "):
        check_folder("log_dir", tmp_path / "file")


def test_json_of_somebody_else():
    document = {"a": [1, {"b": "c"}], "d": None}
    assert read_json(json.dumps(document)) == document
    with pytest.raises(ValueError, match="it is nested too deeply to be read"):
        read_json("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match="Expecting value"):
        read_json(b"[")
