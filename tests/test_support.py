"""What the tests themselves rely on: the choice of `make check`, and the time of each room."""

import subprocess
from pathlib import Path

import pytest
from cpu_times import budget, room_of
from repository import ROOT
from touched import changed_files, touched_tests

HOUSE = "tests/test_house.py"


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
