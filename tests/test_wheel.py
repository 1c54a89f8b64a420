"""What users install: the built wheel, outside the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from repository import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with the unpacked wheel, built from a copy so that no old build/ slips in."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    copy.mkdir()
    for name in ("tfmp", "converters"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(copy)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_every_file_of_the_packages(site):
    for name, target in (("tfmp", "tfmp"), ("converters", "tfmp/converters")):
        for path in (ROOT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (site / target / path.relative_to(ROOT / name)).is_file(), path


def test_it_holds_nothing_else(site):
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {
        "tfmp"
    }


def run_outside(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_imports_come_from_the_wheel(site, tmp_path):
    script = "import tfmp, tfmp.converters.commands.cli as c; print(tfmp.__file__, c.__file__)"
    run = run_outside(site, tmp_path, "-c", script)
    assert run.returncode == 0, run.stderr
    assert all(path.startswith(str(site)) for path in run.stdout.split())


# A file of code is a file of the wheel, as was tested: these look for data files, worker processes
# and commands, which find themselves by their place.
SELECTION = (
    "tfmp/commands tfmp/profiling/test_page.py converters/commands converters/distributed "
    "converters/explain converters/report converters/runners converters/shared"
).split()


@pytest.mark.slow
def test_the_tests_pass_against_the_wheel(site, tmp_path):
    shutil.copytree(
        ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    paths = [str(Path("tests", name)) for name in SELECTION]
    run = run_outside(
        site, tmp_path, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *paths
    )
    assert run.returncode == 0, run.stdout[-3000:]
