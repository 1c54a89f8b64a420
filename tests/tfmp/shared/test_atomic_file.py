"""A file is replaced whole, or not at all; the next run removes what a killed one left."""

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from repository import ROOT

from tfmp.shared import atomic_file
from tfmp.shared.atomic_file import (
    draft,
    drop_drafts,
    remove_abandoned,
    replacing,
    temporary_folder,
)

NAME = f".tfmp-{atomic_file._boot()}-0123456789abcdef"
OF_ANOTHER = ".tfmp-01234567-0123456789abcdef"


def test_success_replaces_the_file_with_ordinary_rights(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("old")
    with replacing(path) as temporary:
        assert temporary.parent.parent == tmp_path
        assert temporary.name == "model.onnx"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    assert os.listdir(tmp_path) == ["model.onnx"]
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


def test_every_folder_for_temporary_files_is_a_draft():
    """Others stay for ever where their run is killed."""
    makers = re.compile(r"\b(mkdtemp|mkstemp|TemporaryDirectory|NamedTemporaryFile)\b")
    code = [path for wing in ("tfmp", "converters") for path in (ROOT / wing).rglob("*.py")]
    assert len(code) > 100
    assert [path for path in code if makers.search(path.read_text())] == []


# A run that is in the middle of a file, and of a folder for temporary files.
WRITER = """
import sys
from pathlib import Path
from tfmp.shared.atomic_file import replacing, temporary_folder
with temporary_folder() as folder, replacing(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    (folder / "much").write_text("of it")
    print("writing", flush=True)
    sys.stdin.read()
    draft.write_text("whole")
"""


@pytest.fixture
def begin(tmp_path: Path, monkeypatch) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts runs that write `out/file`, and wait for the end of their input in the middle."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    begun = []

    def begin() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WRITER, tmp_path / "out" / "file"]
        process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("*/*"))


def test_the_next_run_removes_what_a_killed_one_left(begin, tmp_path: Path):
    (tmp_path / "out" / "file").write_text("old")
    process = begin()
    process.kill()
    process.wait()
    assert len(left(tmp_path)) == 3
    assert all(name.startswith(".tfmp-") for name in left(tmp_path) if name != "file")
    assert (tmp_path / "out" / "file").read_text() == "old"
    with temporary_folder(), replacing(tmp_path / "out" / "other") as path:
        path.write_text("new")
    assert left(tmp_path) == ["file", "other"]
    assert (tmp_path / "out" / "file").read_text() == "old"


def test_runs_that_write_at_the_same_time_leave_each_other_in_peace(begin, tmp_path: Path):
    one, two = begin(), begin()
    with replacing(tmp_path / "out" / "other") as path, temporary_folder():
        path.write_text("new")
    one.communicate("")
    assert (tmp_path / "out" / "file").read_text() == "whole"
    (tmp_path / "out" / "file").unlink()
    two.communicate("")
    assert (one.returncode, two.returncode) == (0, 0)
    assert left(tmp_path) == ["file", "other"]


def leave_a_draft(folder: Path, name: str = NAME) -> Path:
    """The traces of a killed run."""
    (folder / name).mkdir()
    (folder / name / "half").write_text("half")
    return folder / name


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_traces_of_a_killed_run_are_known(tmp_path: Path):
    leave_a_draft(tmp_path)
    remove_abandoned(tmp_path)
    assert names(tmp_path) == []
    place = leave_a_draft(tmp_path, OF_ANOTHER)
    remove_abandoned(tmp_path)
    assert names(tmp_path) == [OF_ANOTHER]
    os.utime(place, (1e9, 1e9))
    remove_abandoned(tmp_path)
    assert names(tmp_path) == []


def test_all_that_is_no_draft_is_left(tmp_path: Path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (here / NAME).symlink_to(leave_a_draft(there))
    os.mkfifo(here / f"{NAME[:-1]}0")
    (here / f"{NAME[:-1]}1").write_text("mine")
    leave_a_draft(here, name=".tfmp-mine")
    before = names(here)
    remove_abandoned(here)
    assert names(here) == before
    assert names(there / NAME) == ["half"]


def no_locks(*_: object) -> None:
    raise OSError(38, "Function not implemented")


def test_a_lock_that_cannot_be_taken_may_be_held(tmp_path: Path, monkeypatch):
    os.utime(leave_a_draft(tmp_path), (1e9, 1e9))
    monkeypatch.setattr(atomic_file.fcntl, "flock", no_locks)
    with replacing(tmp_path / "new") as path:
        path.write_text("new")
    assert names(tmp_path) == [NAME, "new"]


def test_a_draft_that_another_run_finds_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    lock, found = atomic_file.fcntl.flock, []

    def found_before(handle: int, kind: int) -> None:
        if not found:
            found.extend(tmp_path.iterdir())
            remove_abandoned(tmp_path)
            assert names(tmp_path) == []
        lock(handle, kind)

    monkeypatch.setattr(atomic_file.fcntl, "flock", found_before)
    with replacing(tmp_path / "new") as path:
        remove_abandoned(tmp_path)
        path.write_text("new")
    assert names(tmp_path) == ["new"]


def test_a_process_that_ends_at_once_removes_its_drafts(tmp_path: Path):
    with draft(tmp_path) as folder:
        (folder / "half").write_text("half")
        drop_drafts()
        assert names(tmp_path) == []


def test_a_folder_that_takes_no_files_is_an_error_of_its_own(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(OSError, match=r"Not a directory|File exists"),
        replacing(tmp_path / "file" / "new"),
    ):
        pass
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError(28, os.strerror(28)), RuntimeError(os.strerror(28))])
def test_an_error_of_a_full_disk_has_the_name_of_the_file(tmp_path: Path, error: Exception):
    with pytest.raises(type(error)) as caught, replacing(tmp_path / "new"):
        raise error
    assert caught.value.filename == str(tmp_path / "new")
    error.filename = None
    with pytest.raises(type(error)) as caught, temporary_folder() as folder:
        raise error
    assert caught.value.filename == str(folder.parent)


def test_other_errors_and_names_stay_as_they_are(tmp_path: Path):
    named = OSError(28, os.strerror(28), "other")
    with pytest.raises(OSError, match="other") as caught, replacing(tmp_path / "new"):
        raise named
    assert caught.value.filename == "other"
    with pytest.raises(ValueError, match="bad") as plain, replacing(tmp_path / "new"):
        raise ValueError("bad")
    assert not hasattr(plain.value, "filename")
