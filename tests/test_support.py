"""What the tests themselves rely on: the choice of `make check`, modules that tests write, the time
that each room may take, and an end of the time for slow tests.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from cpu_times import budget, room_of
from repository import ROOT, SUPPORT
from touched import changed_files, touched_tests

HOUSE = "tests/test_house.py"
LEAN = SUPPORT / "lean"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small one, with tests that mirror it."""
    for name in (
        f"{HOUSE} tests/test_readme.py tests/test_samples.py tests/tfmp/shared/test_tables.py "
        "tests/tfmp/shared/test_numerics.py tests/tfmp/fit/test_callback.py "
        "tests/tfmp/fit/test_callback_distributed.py tests/tfmp/fit/test_fit_guide.py "
        "tests/tfmp/fit/test_preflight.py tests/converters/report/test_contents.py"
    ).split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tests/tfmp/fit/test_preflight.py").write_text("from batches import draw\n")
    (tmp_path / "tests/tfmp/fit/test_fit_guide.py").write_text('PAGE = DOCS / "fit.md"\n')
    (tmp_path / "tests/test_samples.py").write_text('SHOWN = {"first.py": 1}\n')
    return tmp_path


FIT = "tests/tfmp/fit/"
WHOLE_FIT = [
    HOUSE, f"{FIT}test_callback.py", f"{FIT}test_callback_distributed.py",
    f"{FIT}test_fit_guide.py", f"{FIT}test_preflight.py",
]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("tfmp/fit/callback.py", WHOLE_FIT[:-1]),
        ("tfmp/fit/recorder.py", WHOLE_FIT),  # no test is its own
        (
            "tfmp/shared/tables.py",
            [HOUSE, "tests/tfmp/shared/test_numerics.py", "tests/tfmp/shared/test_tables.py"],
        ),
        (
            "converters/report/templates/contents.j2",
            ["tests/converters/report/test_contents.py", HOUSE],
        ),
        ("tests/tfmp/fit/test_preflight.py", [f"{FIT}test_preflight.py"]),
        ("tests/tfmp/fit/conftest.py", WHOLE_FIT[1:]),
        ("tests/support/batches.py", [f"{FIT}test_preflight.py"]),
        ("docs/fit.md", ["tests/test_readme.py", f"{FIT}test_fit_guide.py"]),
        ("samples/first.py", ["tests/test_samples.py"]),
        ("pyproject.toml", [HOUSE, "tests/test_readme.py"]),
        ("tests/tfmp/fit/test_gone.py", []),
    ],
)
def test_a_change_touches_the_tests_that_mirror_it(repository, changed, expected):
    assert touched_tests([changed], repository) == expected


def test_changes_are_what_git_has_not_committed(repository):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    assert changed_files(repository) == []
    (repository / HOUSE).write_text("changed")
    (repository / "new.py").touch()
    assert changed_files(repository) == [HOUSE, "new.py"]


@pytest.mark.parametrize("number", [1, 2])
def test_modules_that_tests_write_may_have_the_same_name(tmp_path, monkeypatch, number):
    (tmp_path / "written_by_a_test.py").write_text(f"number = {number}")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("written_by_a_test").number == number


def test_a_framework_finds_no_package_that_it_wraps_and_others_find_it(tmp_path: Path):
    wrapping = "try:\n    import sklearn\nexcept ImportError:\n    sklearn = None\n"
    (tmp_path / "keras.py").write_text(wrapping)
    (tmp_path / "sklearn.py").touch()
    environment = {**os.environ, "PYTHONPATH": f"{LEAN}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", "import keras, sklearn; print(keras.sklearn)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("None\n", "")


def small_suite(folder: Path, times: str) -> None:
    """What `tests/` has beside the tests themselves."""
    for name in ("conftest.py", "support/cpu_times.py", "support/lean/sitecustomize.py"):
        (folder / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    (folder / "tests" / "times.toml").write_text(times)
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = tests/support\nmarkers = slow\naddopts = --import-mode=importlib\n"
    )


@pytest.mark.parametrize(("until", "ends"), [("1", "1 passed, 1 skipped"), ("1e12", "2 passed")])
def test_slow_tests_that_begin_too_late_skip_and_say_so(tmp_path, monkeypatch, until, ends):
    small_suite(tmp_path, "[quick]\n[slow]\n")
    (tmp_path / "tests" / "test_both.py").write_text(
        "import pytest\n\ndef test_quick(): pass\n\n@pytest.mark.slow\ndef test_slow(): pass\n"
    )
    monkeypatch.setenv("TFMP_SLOW_UNTIL", until)
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-rs", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ends in done.stdout
    assert ("the time for slow tests is over" in done.stdout) is ("skipped" in ends)


# What `.ci/run` has time for, on two cores: CPU seconds of all quick tests and of all slow ones.
WHOLE = {"quick": 9 * 60, "slow": 40 * 60}


@pytest.mark.parametrize("kind", WHOLE)
def test_every_test_has_a_share_of_the_time(kind: str):
    rooms = budget(kind)
    assert sum(rooms.values()) <= WHOLE[kind]
    files = [
        path.relative_to(ROOT / "tests").as_posix() for path in ROOT.glob("tests/**/test_*.py")
    ]
    assert {room_of(file, rooms) for file in files} == rooms.keys()


def test_the_time_of_a_room_is_that_of_its_own_files():
    rooms = {"tfmp": 1.0, "tfmp/fit": 1.0, "test_site": 1.0}
    files = ("tfmp/test_a.py", "tfmp/fit/test_b.py", "test_site.py", "jax/test_c.py")
    assert [room_of(file, rooms) for file in files] == ["tfmp", "tfmp/fit", "test_site", ""]


SPENDING = r"""
import os, subprocess, sys, time
CODE = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"

def test_own():
    exec(CODE.format(0.4))

def test_of_another_process():
    subprocess.run([sys.executable, "-c", CODE.format(0.4)], check=True)
"""


def test_a_room_past_its_share_is_named(tmp_path: Path):
    """Workers and the processes that a test starts count."""
    small_suite(tmp_path, "[quick]\nfit = 0.1\nshared = 60\n[slow]\n")
    for room in ("fit", "shared"):
        (tmp_path / "tests" / room).mkdir()
        (tmp_path / "tests" / room / f"test_{room}.py").write_text(SPENDING)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    assert "4 passed" in shown
    assert re.search(r" 1 of +0  fit  past its share", shown)
    assert " shared" not in shown
