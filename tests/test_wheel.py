"""What users install: the wheel and the sdist, outside the checkout."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from repository import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel that is built from it.

    They are made of a copy, so that no old build/ slips in.
    """
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "source"
    copy.mkdir()
    for name in ("tfmp", "converters"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.suffix in (".toml", ".cfg", ".md", ".in", ".cff") or path.name == "LICENSE":
            shutil.copy(path, copy)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(copy)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def site(built) -> Path:
    """A folder with the unpacked wheel."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(built / "site")
    return built / "site"


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(site):
    for name, target in (("tfmp", "tfmp"), ("converters", "tfmp/converters")):
        for path in (ROOT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (site / target / path.relative_to(ROOT / name)).is_file(), path
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


# Tests of both wings that meet Keras, ONNX and Ray most, and need no other file of the repository.
# Those of commands need a Click that tells streams apart.
CORE = (
    "tfmp/fit/test_callback.py tfmp/loss_scaling/test_optimizer.py "
    "tfmp/precision/test_keep_float32.py converters/distributed/test_cluster.py "
    "converters/onnx/fp16/test_rewriter_casts.py converters/onnx/graph "
    "converters/report/test_contents.py converters/shared converters/test_conversion.py "
    "converters/test_validation.py"
).split()

# Tests of what a newer Python changes: worker processes, commands, annotations that are read, and
# data files that find themselves by their place.
NEWEST = (
    "tfmp/commands/test_cli.py tfmp/fit/test_callback.py tfmp/profiling/test_report.py "
    "converters/commands/test_cli.py converters/distributed converters/report/test_contents.py "
    "converters/shared"
).split()

MODEL = """
import keras, numpy as np
model = keras.Sequential([keras.Input((6,), name="x"), keras.layers.Dense(3, name="y")])
model.save("model.keras")
np.savez("data.npz", x=np.random.default_rng(0).normal(size=(1000, 6)).astype("float32"))
"""


class Environment:
    """A fresh virtual environment, made by uv."""

    def __init__(self, folder: Path, python: str) -> None:
        beside = Path(sys.executable).parent  # the extra "test" puts it there
        uv = shutil.which("uv", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
        if uv is None:
            pytest.skip("uv is not installed")
        self._uv, self._bin = uv, folder / "venv" / "bin"
        self._folder = folder
        # Where pyenv provides Pythons, it hides all but the chosen one.
        chosen = os.environ | {"PYENV_VERSION": python}
        made = self._run(
            *(uv, "venv", "--no-python-downloads", "--python", python, "venv"), environment=chosen
        )
        if made.returncode:
            pytest.skip(f"there is no Python {python}: {made.stderr[-300:]}")

    def install(self, *packages: str) -> None:
        """Installs packages; without a network the test is skipped."""
        done = self._run(
            self._uv, "pip", "install", "--python", str(self._bin / "python"), *packages
        )
        if "Could not connect" in done.stderr or "error sending request" in done.stderr:
            pytest.skip(f"the packages cannot be had here: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr[-3000:]

    def run(self, program: str, *arguments: str) -> str:
        """What a program of the environment prints; it must succeed."""
        done = self._run(str(self._bin / program), *arguments)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done.stdout

    def _run(
        self, *command: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**(environment or os.environ)}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "file", "resolution", "chosen"),
    [("3.11", "*.whl", "lowest-direct", CORE), ("3.13", "*.tar.gz", "highest", NEWEST)],
)
def test_a_stranger_installs_it(built, tmp_path, python, file, resolution, chosen):
    """Tests of both wings, on the oldest and the newest Pythons and versions of dependencies."""
    environment = Environment(tmp_path, python)
    project = str(ROOT / "pyproject.toml")
    # uv takes the lowest versions of what a project file names, not of what a wheel names.
    environment.install("--resolution", resolution, "-r", project, "--extra", "ray")
    (package,) = built.glob(file)
    environment.install("--no-deps", str(package))
    version = tomllib.loads(Path(project).read_text())["project"]["version"]
    for program in ("tfmp", "tfmp-convert"):
        assert environment.run(program, "--version").split()[-1] == version
    environment.run("python", "-c", MODEL)
    told = environment.run("tfmp-convert", "all", "model.keras", "-o", ".", "--data", "data.npz")
    assert "PASS  2 of 2 candidates passed" in told

    environment.install("pytest", "hypothesis", "jsonschema", "scikit-learn")
    shutil.copytree(
        ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(project, tmp_path)
    environment.run(
        *("python", "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"),
        # Old packages warn on new ones, and new ones of what they will change.
        *("-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning"),
        *(str(Path("tests", name)) for name in chosen),
    )
