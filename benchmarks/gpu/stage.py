"""A stage of measurements on the machine with the card: resumable, in processes of its own.

A stage is a module with

    cases(corpus) -> dict of `Case` by name, the most important first, and
    measure(name, corpus) -> dict of plain JSON types, called in a worker process.

Every case ends up in the stage's JSON file as soon as it is measured. A case that is there already
is not measured again, a worker that dies or hangs costs its case, and nothing new begins when the
stage's time is over. This file and `run.py` need Python's standard library only.
"""

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

SCHEMA = "tfmp.gpu/1"

# A rehearsal is on a machine that may be ten times as slow.
_PATIENCE = 10 if os.environ.get("TFMP_GPU_SMALL") else 1

# By stage: its module here, the seconds that it may take, and its title.
STAGES: dict[str, tuple[str, float, str]] = {
    "onnx": ("onnx_cuda", 420, "ONNX Runtime on CUDA"),
    "training": ("training", 440, "Training with Keras"),
    "sharing": ("sharing", 210, "Several models on one card"),
}

# Packages whose versions a result depends on.
_PACKAGES = (
    "tfmp keras jax jaxlib jax-cuda13-plugin torch triton onnx onnx-ir onnxruntime "
    "onnxruntime-gpu numpy nvidia-cublas nvidia-cudnn-cu13 "
    "nvidia-cuda-runtime"
).split()

_QUERY = "name,driver_version,memory.total,compute_cap,clocks.max.sm,power.limit"


@dataclass(frozen=True)
class Case:
    """One measurement of a stage.

    Attributes:
        environment: variables of the worker's environment.
        fresh: whether it needs a process that has measured nothing yet.
        limit_s: seconds after which it is given up.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    limit_s: float = 120.0


def machine() -> dict[str, Any]:
    """Card, driver, processor and versions."""
    return {
        "gpu": _card(),
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "platform": " ".join(os.uname()[i] for i in (0, 2, 4)) if hasattr(os, "uname") else "",
        "versions": dict(_versions()),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _card() -> dict[str, str] | None:
    """The first card as its driver describes it; None where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    done = subprocess.run(
        [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader"], capture_output=True, text=True
    )
    cells = [cell.strip() for cell in done.stdout.partition("\n")[0].split(",")]
    names = _QUERY.split(",")
    return dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


class Results:
    """The JSON file of a stage, written anew after every case."""

    def __init__(self, stage: str, path: Path, earlier: Path | None = None) -> None:
        """Goes on with a file of the same stage and the same kind of machine.

        Args:
            stage: its name.
            path: of the file that is written.
            earlier: a file to go on with, where `path` is not there yet.
        """
        self.path = path
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "stage": stage,
            "machine": machine(),
            "cases": {},
        }
        for file in (path, earlier):
            if file is not None and file.is_file():
                found = json.loads(file.read_text(encoding="utf-8"))
                if _alike(found, self.document):
                    self.document["cases"] = found["cases"]
                break

    def keep(self, **facts: Any) -> None:
        """Adds facts about the stage as a whole, and writes the file."""
        self.document.update(facts)
        part = self.path.with_suffix(".part")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)

    def add(self, name: str, result: Mapping[str, Any]) -> None:
        """Adds the result of a case."""
        self.document["cases"][name] = dict(result)
        self.keep()

    def tried(self, name: str) -> bool:
        """Whether the case was begun."""
        return name in self.document["cases"]

    def has(self, name: str) -> bool:
        """Whether the case was measured; one that failed is tried again."""
        return "error" not in self.document["cases"].get(name, {"error": ""})


def _alike(found: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether results belong to one table: the same stage and card, no package of another version.

    A call may have brought further packages since.
    """
    one, other = found["machine"], document["machine"]
    return (
        (found.get("schema"), found.get("stage")) == (SCHEMA, document["stage"])
        and one.get("gpu") == other["gpu"]
        and all(other["versions"].get(name) == kept for name, kept in one["versions"].items())
    )


class WorkerDied(Exception):
    """A worker ended or did not answer in time."""


class StageWorker:
    """A process that measures cases of one stage, one after the other."""

    def __init__(self, module: str, corpus: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, module, str(corpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
            start_new_session=True,
        )

    def measure(self, name: str, limit_s: float) -> dict[str, Any]:
        """The result of a case.

        Raises:
            WorkerDied: there is none, and this worker must not be used any more.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(name) + "\n")
            stdin.flush()
        except OSError as error:
            raise WorkerDied(f"the process ended: {error}") from error
        ready, _, _ = select.select([stdout], [], [], max(1.0, limit_s))
        if not ready:
            raise WorkerDied(f"no answer in {limit_s:.0f} s")
        line = stdout.readline()
        if not line:
            raise WorkerDied(f"the process ended with status {self._process.wait(10)}")
        return json.loads(line)

    def __enter__(self) -> "StageWorker":
        return self

    def __exit__(self, *exception: object) -> None:
        """Ends the process and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def run(stage: str, corpus: Path, results: Results, seconds: float, only: str = "") -> list[str]:
    """Measures the cases of a stage that are not measured yet.

    Args:
        stage: a key of `STAGES`.
        corpus: folder of the models.
        results: get the cases one by one.
        seconds: after which nothing new begins.
        only: words of which a case's name must have one; empty for all cases.

    Returns:
        The names of cases that are left.
    """
    module = STAGES[stage][0]
    start = time.monotonic()
    cases: dict[str, Case] = import_module(module).cases(corpus)
    words = only.split(",") if only else []
    left = [
        name
        for name in cases
        if not results.has(name) and (not words or any(word in name for word in words))
    ]
    left.sort(key=results.tried)  # what failed before comes last: it may take its whole limit again
    results.keep(corpus=digest(corpus))
    while left and time.monotonic() - start < seconds:
        first = cases[left[0]]
        with StageWorker(module, corpus, first.environment) as worker:
            for name in list(left):
                case = cases[name]
                rest = seconds - (time.monotonic() - start)
                if case.environment != first.environment or rest <= 0:
                    break
                begin = time.monotonic()
                left.remove(name)
                try:
                    found = worker.measure(name, min(case.limit_s * _PATIENCE, rest + 20))
                except WorkerDied as error:
                    results.add(name, {"error": str(error)})
                    _say(name, str(error), begin)
                    break
                found["seconds"] = round(time.monotonic() - begin, 3)
                results.add(name, found)
                _say(name, found.get("error", ""), begin)
                if case.fresh:
                    break
    results.keep(left=left, stage_seconds=round(time.monotonic() - start, 1))
    return left


def _say(name: str, error: str, begin: float) -> None:
    print(f"{name}: {error or 'measured'} ({time.monotonic() - begin:.1f} s)", flush=True)


def digest(corpus: Path) -> str:
    """Names the corpus that results belong to."""
    manifest = corpus / "manifest.json"
    return hashlib.sha256(manifest.read_bytes()).hexdigest()[:16] if manifest.is_file() else ""


def work(module: str, corpus: Path) -> None:
    """Answers a line for each name of a case on standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print, and must not come between the answers
    measure = import_module(module).measure
    for line in sys.stdin:
        try:
            answer = measure(json.loads(line), corpus)
        except Exception as error:  # any failure is a result
            print(traceback.format_exc(), file=sys.stderr)
            lines = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {lines[0][:300]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]))
