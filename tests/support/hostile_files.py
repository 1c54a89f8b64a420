"""Opens files that are damaged in many ways, and counts how each attempt ended.

    python tests/support/hostile_files.py [--count 20000] [--seed 0] [--kind KIND]... [--keep DIR]

Each attempt is a process of its own, forked from one that has loaded all frameworks. It has to end
with a model or samples, or with a sentence: not in a traceback, in a crash of native code, past
60 s or past 4 GiB. A crash is a sentence and status 2 where `tfmp-convert` watches the process;
here it is counted.
"""

import argparse
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
from mutations import mutated

MOST_SECONDS = 60

# How an attempt may end, in the order of the table.
OPENED, REFUSED, TRACEBACK, CRASH, HANG, MEMORY = ENDS = (
    "opened",
    "refused",
    "traceback",
    "crash",
    "past 60 s",
    "past 4 GiB",
)
BAD = (TRACEBACK, HANG, MEMORY)

# Shares of a run: cheap readers take most of it.
SHARES = {
    "labels (.npz, .npy)": 4,
    "samples (.npz, .npy)": 6,
    "options (.toml)": 3,
    "model (.tflite)": 2,
    "model (.onnx)": 2,
    "model (.keras)": 1,
    "model (.h5)": 1,
    "SavedModel": 1,
}


_LOADED = (
    *("tensorflow", "tf_keras", "h5py", "onnx_ir", "onnxruntime"),
    *(f"tfmp.converters.intake.{name}" for name in ("keras_files", "tensorflow", "onnx_file")),
    *("tfmp.converters.commands.plan", "rich.console", "tensorflow.python.eager.cancellation"),
    *(f"tfmp.converters.intake.saved.{name}" for name in ("states", "callables")),
    *(f"tfmp.converters.intake.trust.{name}" for name in ("architectures", "saved_models")),
)


@dataclass(frozen=True)
class Kind:
    """A kind of file: sound ones by name, and the reader that is attacked."""

    sound: Mapping[str, bytes]
    read: Callable[[Path], object]


def kinds(folder: Path) -> dict[str, Kind]:
    """All kinds; sound files are made in `folder`."""
    import keras

    for module in _LOADED:  # once, and not in each attempt
        import_module(module)
    from tfmp.converters import convert
    from tfmp.converters.commands.cli import main
    from tfmp.converters.intake import open_source
    from tfmp.converters.samples.data import open_data
    from tfmp.converters.shared.errors import running_on_samples
    from tfmp.converters.shared.tensors import TensorSpec
    from tfmp.converters.tflite.file import TFLiteModel

    inputs = (TensorSpec("x", (None, 3), "float32"),)
    x = np.arange(24, dtype=np.float32).reshape(8, 3)

    def make() -> None:
        model = keras.Sequential(
            [
                keras.Input((8, 3), name="x"),
                keras.layers.Conv1D(4, 3, activation="relu"),
                keras.layers.LSTM(4),
                keras.layers.Dense(2, activation="softmax", name="y"),
            ]
        )
        for name in ("model.keras", "model.h5"):
            model.save(folder / name)
        model.export(folder / "saved", verbose=False)
        plain = keras.Sequential([keras.Input((8,), name="x"), keras.layers.Dense(4, name="y")])
        convert(plain, output=folder / "plain.onnx", precision="fp32")
        convert(plain, output=folder / "beside.onnx", precision="fp32", external_data=True)
        convert(plain, to="tflite", output=folder / "plain.tflite")
        np.savez(folder / "a.npz", x=x, labels=np.arange(8))
        np.savez_compressed(folder / "b.npz", x=np.asfortranarray(x))
        np.save(folder / "c.npy", x)

    if not os.fork():  # TensorFlow's threads are not inherited: this process starts none
        make()
        os._exit(0)
    os.wait()

    def sound(*names: str) -> dict[str, bytes]:
        return {name: (folder / name).read_bytes() for name in names}

    def samples(path: Path) -> None:
        for _ in open_data(str(path), inputs, batch_size=3).batches():
            pass

    def labels(path: Path) -> None:
        for _ in open_data({"x": x}, inputs, str(path), batch_size=3).batches():
            pass

    def options(path: Path) -> None:
        main(["plan", "--config", str(path)])

    def called(path: Path, x: np.ndarray) -> None:
        """As the commands call a model: on data that fit what it says of its inputs."""
        source = open_source(path)
        for batch in open_data({"x": x}, source.inputs, batch_size=2).batches():
            with running_on_samples(source.name):
                source.forward(batch)

    def beside(path: Path) -> None:
        for name in [each.name for each in folder.glob("beside.onnx.*.data")]:
            shutil.copy(folder / name, path.parent / name)
        called(path, np.ones((2, 8), np.float32))

    def saved(path: Path) -> None:
        whole = path.parent / "saved"
        shutil.copytree(folder / "saved", whole)
        shutil.copy(path, whole / path.name.replace("@", "/"))
        called(whole, np.ones((2, 8, 3), np.float32))

    def opened(path: Path) -> None:
        called(path, np.ones((2, 8, 3), np.float32))

    def tflite(path: Path) -> None:
        model = TFLiteModel(path)
        for tensor in model.constants():
            model.constant(tensor).sum()

    toml = b'confidence = "0.95"\nquiet = true\n[plan]\nsamples = 300\n"flip-rate" = "0.01"\n'
    parts = {
        path.relative_to(folder / "saved").as_posix().replace("/", "@"): path.read_bytes()
        for path in (folder / "saved").rglob("*")
        if path.is_file()
    }
    return {
        "labels (.npz, .npy)": Kind(sound("a.npz", "b.npz", "c.npy"), labels),
        "samples (.npz, .npy)": Kind(sound("a.npz", "b.npz", "c.npy"), samples),
        "options (.toml)": Kind({"options.toml": toml}, options),
        "model (.tflite)": Kind(sound("plain.tflite"), tflite),
        "model (.onnx)": Kind(sound("plain.onnx", "beside.onnx"), beside),
        "model (.keras)": Kind(sound("model.keras"), opened),
        "model (.h5)": Kind(sound("model.h5"), opened),
        "SavedModel": Kind(parts, saved),
    }


def damaged(kind: Kind, seed: int) -> tuple[str, bytes]:
    """The name and the bytes of a damaged file."""
    names = sorted(kind.sound)
    name = names[seed % len(names)]
    content = kind.sound[name]
    if zipfile.is_zipfile(io.BytesIO(content)) and seed % 4:
        return name, _inside(content, seed)
    return name, mutated(content, seed)


def _inside(content: bytes, seed: int) -> bytes:
    """A sound archive of which one member is damaged: its checksum does not tell."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(written, "w") as target:
        members = source.namelist()
        for index, member in enumerate(members):
            own = source.read(member)
            target.writestr(member, mutated(own, seed) if index == seed % len(members) else own)
    return written.getvalue()


def attempt(kind: Kind, name: str, content: bytes) -> tuple[str, str]:
    """How one attempt ends, and what it said."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        told = Path(folder, "told")
        process = os.fork()
        if not process:
            _run(kind, path, told)
        os.waitpid(process, 0)
        how, _, text = told.read_text(errors="replace").partition("\n")
        return how, text


def _run(kind: Kind, path: Path, told: Path) -> None:
    """The attempt itself, in its own process, which a second one watches as the command's is."""
    from tfmp.converters.shared.errors import InputError, RunnerError
    from tfmp.converters.shared.memory import limit_memory
    from tfmp.shared import watched

    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["TMPDIR"] = str(path.parent)
    tempfile.tempdir = None
    seen = watched.watch(limit_memory("4G"))
    if seen is not None:
        killer = os.WTERMSIG(seen.status)
        if seen.overdue or seen.used:
            told.write_text(f"{REFUSED}\n{seen.overdue}" if seen.overdue else MEMORY)
        elif killer or not told.exists():
            told.write_text(HANG if killer == signal.SIGALRM else CRASH)
        os._exit(0)
    signal.alarm(MOST_SECONDS)
    try:
        kind.read(path)
        end = OPENED
    except (InputError, RunnerError, OSError, MemoryError, RecursionError) as error:
        end = f"{REFUSED}\n{error}"
    except SystemExit as error:  # the command line's own status
        end = {0: OPENED, 2: REFUSED}.get(error.code, f"{TRACEBACK}\nstatus {error.code}")
    except BaseException:
        end = f"{TRACEBACK}\n{traceback.format_exc()}"
    told.write_text(end, errors="backslashreplace")
    os._exit(0)


def attack(
    count: int, seed: int = 0, only: tuple[str, ...] = (), keep: Path | None = None
) -> dict[str, Counter[str]]:
    """Makes about `count` attempts; gives the numbers of their ends by the kind of file."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        found = {
            name: kind for name, kind in kinds(Path(folder)).items() if not only or name in only
        }
        whole = sum(SHARES[name] for name in found)
        ends: dict[str, Counter[str]] = {}
        for name, kind in found.items():
            ends[name] = Counter()
            for number in range(round(count * SHARES[name] / whole)):
                file, content = damaged(kind, seed + number)
                end, told = attempt(kind, file, content)
                if end == HANG:  # a busy machine may have held it up; what never ends, never ends
                    end, told = attempt(kind, file, content)
                ends[name][end] += 1
                if keep is not None and end not in (OPENED, REFUSED):
                    place = keep / f"{end}-{seed + number}-{file}"
                    place.write_bytes(content)
                    place.with_name(f"{place.name}.txt").write_text(told)
    return ends


def table(ends: Mapping[str, Counter[str]]) -> str:
    """The numbers in Markdown."""
    lines = [f"| file | tried | {' | '.join(ENDS)} |", f"|---|{'---:|' * (len(ENDS) + 1)}"]
    for name, counts in [*ends.items(), ("all", sum(ends.values(), Counter()))]:
        cells = [f"{counts[end]:,}" for end in ENDS]
        lines.append(f"| {name} | {counts.total():,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[], choices=SHARES)
    parser.add_argument("--keep", type=Path, help="folder for the files that broke something")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    ends = attack(given.count, given.seed, tuple(given.kind), given.keep)
    sys.stdout.write(table(ends) + "\n")
    sys.exit(any(counts[bad] for counts in ends.values() for bad in BAD))


if __name__ == "__main__":
    main()
