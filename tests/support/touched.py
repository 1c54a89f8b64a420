"""The tests that a change touches, for `make check`.

Run: python touched.py; prints the paths that pytest is to run, one a line.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from repository import ROOT


def changed_files(root: Path = ROOT) -> list[str]:
    """Files that differ from the last commit, and files that git does not know."""
    found: list[str] = []
    for command in ("diff --name-only HEAD", "ls-files --others --exclude-standard"):
        done = subprocess.check_output(["git", *command.split()], cwd=root, text=True)
        found += done.splitlines()
    return found


def touched_tests(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """The tests of changed files: these mirror them, or name them, or are they.

    Args:
        changed: paths below `root`.
        root: of the repository.
    """
    tests = sorted((root / "tests").rglob("test_*.py"))
    found: set[Path] = set()
    for path in map(Path, changed):
        if path.parts[0] in ("tfmp", "converters"):
            found |= {root / "tests/test_house.py"} | _mirrors(path, root)
        elif path.name in ("pyproject.toml", "setup.cfg", "Makefile"):
            found |= {root / "tests/test_house.py", root / "tests/test_readme.py"}
        elif path.name == "conftest.py":
            found |= set((root / path).parent.glob("test_*.py"))
        elif path.name.startswith("test_"):
            found.add(root / path)
        else:  # a page, a sample, a benchmark, or what tests share
            found |= {test for test in tests if _names(test, path)}
            found |= {root / "tests/test_readme.py"} if path.suffix == ".md" else set()
    return [str(path.relative_to(root)) for path in sorted(found) if path.exists()]


def _mirrors(module: Path, root: Path) -> set[Path]:
    """Tests of a module and of its folder as a whole; all of the folder if none is its own."""
    folder = root / "tests" / module.parent
    while not folder.exists():  # a template, or a folder without tests
        folder = folder.parent
    tests = set(folder.glob("test_*.py"))
    own = {test for test in tests if _is_for(test, module.name.partition(".")[0])}
    if not own or folder.name == "shared":
        return tests
    return own | {test for test in tests if _is_for(test, folder.name)}


def _is_for(test: Path, name: str) -> bool:
    stem = test.stem.removeprefix("test_")
    return stem == name or stem.startswith(f"{name}_")


def _names(test: Path, path: Path) -> bool:
    words = (f'"{path.name}"', f"import {path.stem}\n", f"from {path.stem} import")
    return any(word in test.read_text() for word in words)


if __name__ == "__main__":
    print(*touched_tests(changed_files()), sep="\n")  # noqa: T201
