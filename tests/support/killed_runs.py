"""Kills conversions while they work and write, and looks at what is left.

    python tests/support/killed_runs.py COUNT

Each run is forked from a process that has loaded all frameworks, and is killed (SIGKILL) at a
random operation on files. After each kill every file is the old one or the new one, and no process
goes on; after a run that is not killed, nothing is left.
"""

import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


# Operations that change a folder, as Python's audit hooks name them.
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link")

# A user's own, by names that are nearly ours; the third is one of weights.
STRANGERS = (".tfmp-0123456789abcdef", ".tfmp-mine", "m.onnx.0123456789ab.data")

MODELS = ("m.onnx", "m.tflite")

# Processes of a run that was killed see that it is gone, and end.
_GONE_SECONDS = 20.0


class Wrong(Exception):
    """Something is not as it has to be."""


def check(condition: object, what: object) -> None:
    """Raises `Wrong` unless a condition holds."""
    if not condition:
        raise Wrong(str(what))


def _on_change(tell: Callable[[int], object]) -> None:
    """Counts this process's operations on files."""
    count = [0]

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event in _CHANGES or (event == "open" and "w" in str(arguments[1])):
            count[0] += 1
            tell(count[0])

    sys.addaudithook(look)


def run(work: Callable[[], object], kill: int | None = None) -> None:
    """Runs something in a process of its own, the leader of those that it starts.

    Args:
        work: the run.
        kill: the number of the operation on files to kill it at; None for a run that ends.

    Raises:
        Wrong: it fails, or processes of it go on.
    """
    process = os.fork()
    if not process:
        status = 1
        try:
            os.setsid()
            if kill is not None:
                _on_change(lambda number: number == kill and os.kill(os.getpid(), signal.SIGKILL))
            work()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    killed = kill is not None and status == -signal.SIGKILL
    check(killed or status == 0, f"status {status}")
    until = time.monotonic() + _GONE_SECONDS
    while going_on := [each for each in map(_session, _processes()) if each == process]:
        check(time.monotonic() < until, f"{len(going_on)} processes go on")
        time.sleep(0.02)


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _session(process: str) -> int:
    """The session of a process; 0 for one that has ended."""
    try:
        state, *rest = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state == "Z" else int(rest[2])


def changes_of(work: Callable[[], object]) -> int:
    """The number of operations on files of a run."""
    read, write = os.pipe()

    def counting() -> None:
        _on_change(lambda number: os.write(write, b"."))
        work()

    run(counting)
    os.close(write)
    with os.fdopen(read, "rb") as dots:
        return len(dots.read())


def debris(*folders: Path) -> list[str]:
    """Drafts that are left."""
    found = [path for folder in folders for path in folder.rglob(".tfmp-*")]
    return sorted(path.name for path in found if path.name not in STRANGERS)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def convert(*words: object) -> None:
    """`tfmp-convert`, in this process."""
    from tfmp.converters.commands.cli import main

    main(list(map(str, words)))


def make_models(folder: Path) -> None:
    """`0/m.keras` and `1/m.keras`, alike but for their weights."""
    import keras

    for seed in range(2):
        (folder / str(seed)).mkdir()
        keras.utils.set_random_seed(seed)
        layers = [keras.Input((8,), name="x"), keras.layers.Dense(64), keras.layers.Dense(4)]
        keras.Sequential(layers).save(folder / str(seed) / "m.keras")


def kill_conversions(folder: Path, count: int, draw: random.Random) -> None:
    """`tfmp-convert all --force`, of two models in turn into one folder."""
    from tfmp.converters.onnx.graph.storage import external_files

    out, tmp = folder / "out", Path(tempfile.gettempdir())
    out.mkdir()
    for name in STRANGERS:
        (out / name).write_text("mine")

    def all_of(seed: int, place: Path, external: bool) -> Callable[[], None]:
        words = ["all", folder / str(seed) / "m.keras", "-o", place, "--force", "--quiet"]
        return lambda: convert(*words, *["--external-data"] * external)

    run(lambda: make_models(folder))
    known: dict[str, set[str]] = {}
    for seed in range(2):
        for external in (False, True):
            place = folder / f"{seed}-{external}"
            changes = changes_of(all_of(seed, place, external))
            for path in place.iterdir():
                known.setdefault(path.name, set()).add(digest(path))
    for number in range(count):
        kill = draw.randint(1, changes)
        run(all_of(number % 2, out, draw.random() < 0.7), kill)
        weights = external_files(out / "m.onnx")
        for path in (*weights, *(out / name for name in MODELS if (out / name).exists())):
            check(digest(path) in known.get(path.name, ()), f"{path.name} is no whole file")
        left = debris(out, tmp)
        sys.stdout.write(f"{number}: killed at change {kill}; {len(left)} traces\n")
    run(all_of(0, out, False))
    check(not debris(out, tmp), debris(out, tmp))
    there = set(os.listdir(out)) - {*STRANGERS}  # also weights of replaced models
    check(all(digest(out / name) in known.get(name, ()) for name in there), there)
    check(all((out / name).read_text() == "mine" for name in STRANGERS), "strangers have changed")


_LOADED = (
    *("tensorflow", "keras", "onnx_ir", "onnxruntime", "rich.console", "tf2onnx"),
    *("tfmp.converters.conversion", "tfmp.converters.onnx.format"),
    *("tfmp.converters.tflite.format", "tfmp.converters.report"),
)


def main() -> None:
    (count,) = sys.argv[1:]
    for module in _LOADED:  # once, and not in each run
        import_module(module)
    top = Path(tempfile.mkdtemp(prefix="k"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(top / "t")
    os.mkdir(tempfile.tempdir)
    kill_conversions(top, int(count), random.Random(0))
    shutil.rmtree(top)


if __name__ == "__main__":
    main()
