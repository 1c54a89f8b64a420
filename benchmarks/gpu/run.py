"""One stage of measurements on the machine with the card; `prepare.py` prints the calls.

    python3 benchmarks/gpu/run.py STAGE [--take FOLDER ...] [--results FOLDER] [--seconds N]

`--take` keeps what a call has brought along (wheels, pieces of wheels, models) outside the working
tree, which is sent anew with every call. The first stage that runs installs the wheels that are
there. STAGE "keep" only takes. A stage goes on with the results that are there already: on this
machine, or brought along in build/gpu/results. Exit status: 0 if all cases of the stage are
measured, 3 if some are left, 2 if something is missing.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import stage

HERE = Path(__file__).resolve().parent
BROUGHT = HERE.parents[1] / "build" / "gpu" / "results"
STORE = Path(os.environ.get("TFMP_GPU_STORE") or Path(tempfile.gettempdir()) / "tfmp-gpu")
SITE = STORE / "site"
_PIECES = "pieces.json"


def take(folder: Path) -> None:
    """Copies what a call has brought along."""
    if not folder.is_dir():
        raise SystemExit(f"--take expects a folder that this call carries; there is no {folder}")
    shutil.copytree(folder, STORE, dirs_exist_ok=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"kept {folder.name}: {size / 1e6:.1f} MB", flush=True)


def joined(store: Path) -> tuple[list[Path], list[str]]:
    """Joins the wheels of which every piece is there.

    Returns:
        The wheels, and the names of pieces that are missing.
    """
    wheels, missing = [], []
    for told in sorted(store.glob(f"*{_PIECES}")):
        plan = json.loads(told.read_text(encoding="utf-8"))
        pieces = [store / name for name in plan["pieces"]]
        gone = [piece.name for piece in pieces if not piece.is_file()]
        wheel = store / "joined" / plan["name"]
        missing += gone
        if gone or wheel.is_file():
            wheels += [wheel] if wheel.is_file() else []
            continue
        wheel.parent.mkdir(exist_ok=True)
        whole = hashlib.sha256()
        with open(wheel, "wb") as file:
            for piece in pieces:
                data = piece.read_bytes()
                whole.update(data)
                file.write(data)
        if whole.hexdigest() != plan["sha256"]:
            wheel.unlink()
            raise SystemExit(f"{plan['name']}: the pieces do not make the wheel that was cut")
        wheels.append(wheel)
    return wheels, missing


def install() -> list[str]:
    """Installs the wheels that are there and not installed yet, beside the machine's packages.

    Returns:
        The names of pieces of wheels that are missing.
    """
    pieces, missing = joined(STORE)
    done = STORE / "installed"
    known = done.read_text(encoding="utf-8").split() if done.is_file() else []
    new = [
        wheel for wheel in (*sorted(STORE.glob("wheels/*.whl")), *pieces) if wheel.name not in known
    ]
    if new:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"),
                *("--no-compile", "--no-cache-dir", "--upgrade", "--disable-pip-version-check"),
                *("--target", str(SITE), *map(str, new)),
            ],
            check=True,
        )
        done.write_text("\n".join([*known, *(wheel.name for wheel in new)]), encoding="utf-8")
        print(f"installed {', '.join(wheel.name.split('-')[0] for wheel in new)}", flush=True)
    return missing


def cuda_libraries() -> list[str]:
    """Folders of CUDA's libraries among the machine's packages.

    ONNX Runtime looks for them beside itself, and the wheels that travel are installed elsewhere.
    """
    found = find_spec("nvidia")
    roots = found.submodule_search_locations or [] if found is not None else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/lib"))]


def main() -> int:
    """Takes, installs, measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["keep", *stage.STAGES])
    parser.add_argument("--take", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=STORE / "results", metavar="FOLDER")
    parser.add_argument("--seconds", type=float, help="after which nothing new begins")
    parser.add_argument("--only", default="", help="words of names of cases, with commas between")
    options = parser.parse_args()
    STORE.mkdir(parents=True, exist_ok=True)
    for folder in options.take:
        take(folder)
    if options.stage == "keep":
        return 0
    missing = install()
    if missing:
        print(f"missing: {', '.join(missing)}; take their folders first", file=sys.stderr)
    if not (STORE / "corpus" / "manifest.json").is_file():
        print("expected the corpus of prepare.py: take build/gpu/base first", file=sys.stderr)
        return 2
    if not list(STORE.glob("joined/*.whl")) and options.stage == "onnx":
        print("expected ONNX Runtime for the card: take build/gpu/piece-1 and on", file=sys.stderr)
        return 2
    # The wheels come before the machine's packages of the same names.
    paths = [str(SITE), str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    libraries = [*cuda_libraries(), os.environ.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    if os.environ.get("TFMP_GPU_STAGE") != options.stage:  # once more, with these paths
        arguments = [options.stage, "--results", str(options.results), "--only", options.only]
        arguments += ["--seconds", str(options.seconds)] if options.seconds is not None else []
        environment |= {"TFMP_GPU_STAGE": options.stage, "TFMP_GPU_STORE": str(STORE)}
        command = [sys.executable, str(Path(__file__).resolve()), *arguments]
        return subprocess.run(command, env={**os.environ, **environment}).returncode
    kept = STORE / "results" / f"{options.stage}.json"
    results = stage.Results(options.stage, kept, BROUGHT / kept.name)
    os.environ["TFMP_GPU_OUTPUTS"] = str(STORE / "outputs")
    seconds = options.seconds if options.seconds is not None else stage.STAGES[options.stage][1]
    try:
        left = stage.run(options.stage, STORE / "corpus", results, seconds, options.only)
    finally:
        give(options.results, options.stage)
    for name, case in results.document["cases"].items():
        if "error" in case:
            print(f"failed: {name}: {case['error']}")
    print(f"{options.stage}: {len(results.document['cases'])} cases, {len(left)} left", flush=True)
    return 3 if left else 0


def give(folder: Path, name: str) -> None:
    """Copies the results of a stage to where the call takes them from."""
    kept = STORE / "results" / f"{name}.json"
    if kept.is_file() and folder.resolve() != kept.parent.resolve():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, folder)
    outputs = sorted((STORE / "outputs" / name).glob("*.npz"))
    if outputs:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.make_archive(str(folder / f"{name}-outputs"), "zip", outputs[0].parent)


if __name__ == "__main__":
    sys.exit(main())
