"""Packs everything that the machine with the card needs, and prints the calls to make, in order.

    python benchmarks/gpu/prepare.py [--groups probes trained files seeded]

That machine has the packages of machine.txt and no network, takes 64 MiB with a call, and is gone
30 seconds after the last one. So build/gpu/ gets a folder for each call: `base` with wheels and
most of the corpus, `files` with the rest, `piece-1` and on with the wheel of ONNX Runtime for CUDA
13 in pieces. The script needs this project's own environment, the network, and tests/support/.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]

import stage

_DEVICE_MINUTES = 30

_FOLDERS = ("base", "files", "runtime")

RUNTIME = "onnxruntime-gpu==1.31.1"
PYTHON = "3.12"
_PLATFORMS = [f"manylinux_2_{n}_x86_64" for n in (34, 31, 28, 27, 24, 17)] + [
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
]


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


def folder_bytes(folder: Path) -> int:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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
    version = ".".join(runtime.name.split("-")[1].split(".")[:2])
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
    for name, size in sizes.items():
        print(f"{name}: {size / 1e6:.1f} MB")
    print(f"{len(written)} models, {len(left_out)} left out")
    listed = calls(out, pieces)
    (out / "calls.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    print("\nCalls, one at once after the other:")
    for call in listed:
        print(json.dumps(call))
    needed = sum(seconds for _, seconds, _ in stage.STAGES.values()) / 60
    print(f"\nStages take at most {needed:.0f} of {_DEVICE_MINUTES} minutes.")
    print("Afterwards, for each call's files: python benchmarks/gpu/report.py --take FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
