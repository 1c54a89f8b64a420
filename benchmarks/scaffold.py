"""What scripts share: their environment, options, processes of their own, distances and words.

It is imported before any framework: it keeps TensorFlow's start-up chatter out of the output, and
lets scripts find the models that they share with the tests.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

# In front of the JSON line that a process gives back: libraries print, too.
_FIGURES = "FIGURES"


def parser(description: str) -> argparse.ArgumentParser:
    """A parser that describes a script by the first line of its docstring."""
    return argparse.ArgumentParser(description=description.partition("\n")[0])


def versions(names: Iterable[str]) -> str:
    """The versions of those packages that are installed."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def give_back(figures: Mapping[str, Any]) -> None:
    """Gives figures to the process that called `figures_of`."""
    print(_FIGURES + json.dumps(figures))


def figures_of(script: str, *arguments: str) -> dict[str, Any]:
    """What a script gives back when it is run with other arguments in a process of its own."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_FIGURES)]
    if done.returncode or not lines:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix(_FIGURES))


def distance(expected: Iterable[np.ndarray], received: Iterable[np.ndarray]) -> float:
    """The worst output's relative L2 distance, where the original is finite.

    NaN where the candidate is not finite there, infinite where shapes or whole numbers differ.
    """
    worst = 0.0
    for wanted, got in zip(expected, received, strict=True):
        if wanted.shape != got.shape:
            return math.inf
        if wanted.dtype.kind not in "fc":
            if not np.array_equal(wanted, got):
                return math.inf
            continue
        finite = np.isfinite(wanted)
        if not np.isfinite(got[finite]).all():
            return math.nan
        error = got[finite].astype(np.float64) - wanted[finite]
        norm = float(np.linalg.norm(wanted[finite].astype(np.float64)))
        worst = max(worst, float(np.linalg.norm(error)) / norm if norm else float(error.any()))
    return worst


def first_words(text: str, most: int = 120) -> str:
    """A reason short enough for a cell, without the folders of this machine."""
    line = re.sub(r"(?<![\w.])/\S+/", "", " ".join(text.split())).replace("|", "/")
    return line if len(line) <= most else line[: most - 4].rsplit(" ", 1)[0] + " ..."
