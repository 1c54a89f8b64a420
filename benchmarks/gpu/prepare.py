"""Packs everything that the machine with the card needs, and prints the calls to make, in order.

    python benchmarks/gpu/prepare.py [--groups probes trained files seeded]

That machine has the packages of machine.txt and no network, takes 64 MiB with a call, and is gone
30 seconds after the last one. So build/gpu/ gets a folder for each call: `base` with wheels and
most of the corpus, `files` with the rest, `piece-1` and on with the wheel of ONNX Runtime for CUDA
13 in pieces. The script needs this project's own environment, the network,
and tests/support/; it ends with status 2 if a folder is too large to travel or a wheel needs a
package that is not there.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from email.parser import Parser
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]

import stage
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What a call takes: the working tree and what it carries, together. A piece leaves room for a tree
# of 7 MB.
MOST_CALL_BYTES = 64 * 2**20
MOST_PIECE_BYTES = 60_000_000
_DEVICE_MINUTES = 30

_FOLDERS = ("base", "files", "runtime")

RUNTIME = "onnxruntime-gpu==1.31.1"
PYTHON = "3.12"
_PLATFORMS = [f"manylinux_2_{n}_x86_64" for n in (34, 31, 28, 27, 24, 17)] + [
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
]

# tfmp's requirements that its training wing and the reading of ONNX files on JAX do without.
_WITHOUT = {"tensorflow", "tf2onnx", "tf-keras", "ai-edge-litert", "onnxruntime-gpu"}


def wheels() -> list[str]:
    """Packages that the machine lacks: Keras with its own needs."""
    return [f"keras=={metadata.version('keras')}", "namex", "optree"]


def download(requirements: Iterable[str], folder: Path) -> None:
    """Fetches wheels for the machine, without what they need."""
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"),
            *(*platforms, "--dest", str(folder), *requirements),
        ],
        check=True,
    )


def build(folder: Path) -> None:
    """Builds this project's own wheel."""
    with tempfile.TemporaryDirectory() as built:  # setuptools leaves its folders in the source
        source = Path(built) / "source"
        for name in ("tfmp", "converters"):
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
            shutil.copy2(ROOT / name, source)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
                *("--no-build-isolation", "--wheel-dir", str(folder), str(source)),
            ],
            check=True,
        )


def unmet(carried: Sequence[Path], there: Iterable[str]) -> list[str]:
    """Sentences about packages that wheels need and neither carry nor machine have.

    Args:
        carried: wheels.
        there: names of the machine's packages.
    """
    found = {path: _metadata(path) for path in carried}
    names = {canonicalize_name(name) for name in there}
    names |= {canonicalize_name(str(told["Name"])) for told in found.values()}
    missing = []
    for told in found.values():
        for text in told.get_all("Requires-Dist") or []:
            needed = Requirement(text)
            name = canonicalize_name(needed.name)
            environment = {"extra": "", "python_version": PYTHON, "python_full_version": PYTHON}
            if needed.marker and not needed.marker.evaluate(environment):
                continue
            if told["Name"] == "tfmp" and name in _WITHOUT:
                continue
            if name not in names:
                missing.append(
                    f"{told['Name']} needs {needed.name}: add it to machine.txt or wheels"
                )
    return missing


def _metadata(wheel: Path):  # email.message.Message
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def machine_packages() -> list[str]:
    """The machine's packages, with versions where they are known."""
    lines = (HERE / "machine.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def cut(wheel: Path, out: Path, most: int) -> list[Path]:
    """Cuts a wheel into folders, one for each call.

    Args:
        wheel: the wheel.
        out: gets the folders piece-1 and on.
        most: bytes of a piece.

    Returns:
        The folders.
    """
    data = wheel.read_bytes()
    count = -(-len(data) // most)
    size = -(-len(data) // count)
    names = [f"{wheel.stem}.piece{number}" for number in range(1, count + 1)]
    told = {
        "name": wheel.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "pieces": names,
    }
    folders = []
    for number, name in enumerate(names):
        folder = out / f"piece-{number + 1}"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(data[number * size : (number + 1) * size])
        (folder / "runtime-pieces.json").write_text(json.dumps(told), encoding="utf-8")
        folders.append(folder)
    return folders


def tree_bytes() -> int:
    """Size of the working tree that travels with every call."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    paths = [ROOT / os.fsdecode(name) for name in listed if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def folder_bytes(folder: Path) -> int:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def too_large(sizes: dict[str, int], tree: int) -> list[str]:
    """Sentences about folders that cannot travel.

    Args:
        sizes: bytes by folder.
        tree: bytes of the working tree.
    """
    return [
        f"{name} is {size / 1e6:.1f} MB; a call takes {MOST_CALL_BYTES / 1e6:.1f} MB with the "
        f"working tree's {tree / 1e6:.1f} MB, and a piece at most {MOST_PIECE_BYTES / 1e6:.0f} MB"
        for name, size in sizes.items()
        if size > MOST_PIECE_BYTES or size + tree > MOST_CALL_BYTES
    ]


def calls(out: Path, pieces: Sequence[Path]) -> list[dict]:
    """The calls of the device tool, in order: each takes what it carries, most also measure."""

    def path(folder: Path) -> str:
        return os.path.relpath(folder, ROOT)

    run = "python3 benchmarks/gpu/run.py"
    results = path(out / "results")
    found = [
        {
            "command": f"{run} keep --take {path(piece)}",
            "carry": [path(piece)],
            "timeout_s": 120,
        }
        for piece in pieces
    ]
    for name, (_, seconds, _) in stage.STAGES.items():
        takes = [path(out / "base")] if name == "onnx" else []
        take = f" --take {' '.join(takes)}" if takes else ""
        found.append(
            {
                "command": f'{run} {name}{take} --results "$OUT"',
                "carry": [*takes, results],
                "timeout_s": min(600, round(seconds) + 110),
            }
        )
    return found


def main() -> int:
    """Packs, checks, prints."""
    import corpus_files

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--groups", nargs="+", default=corpus_files.GROUPS)
    parser.add_argument("--models", nargs="*", default=(), help="names; all of the groups if none")
    parser.add_argument("--runtime", default=RUNTIME, help="the wheel that travels in pieces")
    parser.add_argument("--piece-bytes", type=int, default=54_000_000)
    options = parser.parse_args()
    out = options.out.resolve()
    for old in (*(out / name for name in _FOLDERS), *out.glob("piece-*")):
        shutil.rmtree(old, ignore_errors=True)
    download(wheels(), out / "base" / "wheels")
    build(out / "base" / "wheels")
    download([options.runtime], out / "runtime")
    (runtime,) = (out / "runtime").glob("*.whl")
    pieces = cut(runtime, out, options.piece_bytes)
    carried = [*out.glob("*/wheels/*.whl"), runtime]
    problems = unmet(carried, [Requirement(line).name for line in machine_packages()])
    version = ".".join(str(_metadata(runtime)["Version"]).split(".")[:2])
    profiles = list(dict.fromkeys([*corpus_files.PROFILES, f"ort-cuda:{version}"]))
    written, left_out = corpus_files.write(
        out / "base" / "corpus", options.groups, profiles, options.models
    )
    apart = [entry["name"] for entry in written if entry["group"] == "files"]
    (out / "files" / "corpus").mkdir(parents=True)
    for name in apart:  # all models together may be too large for one call
        shutil.move(out / "base" / "corpus" / name, out / "files" / "corpus" / name)
    if apart:
        pieces = [*pieces, out / "files"]
    folders = [out / "base", *pieces]
    sizes = {folder.name: folder_bytes(folder) for folder in folders}
    problems += too_large(sizes, tree_bytes())
    for name, size in sizes.items():
        print(f"{name}: {size / 1e6:.1f} MB")
    print(f"{len(written)} models, {len(left_out)} left out")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    listed = calls(out, pieces)
    (out / "calls.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    print("\nCalls, one at once after the other:")
    for call in listed:
        print(json.dumps(call))
    needed = sum(seconds for _, seconds, _ in stage.STAGES.values()) / 60
    print(f"\nStages take at most {needed:.0f} of {_DEVICE_MINUTES} minutes.")
    print("Afterwards, for each call's files: python benchmarks/gpu/report.py --take FOLDER")
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
