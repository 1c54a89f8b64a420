"""Stage "commands": `tfmp doctor` and `tfmp profile`, as users call them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stage import Case

_HERE = Path(__file__).resolve().parent
_PROFILED = {"residual": "images", "transformer": "sentences", "lstm": "sequences"}


def cases(corpus: Path) -> dict[str, Case]:
    """The check of the machine, then a profile of each model."""
    environment = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    names = ["doctor", *(f"profile/{model}" for model in _PROFILED)]
    return {name: Case(environment, limit_s=120.0) for name in names}


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Runs one command, and gives its JSON document, exit status and messages."""
    command, _, model = name.partition("/")
    arguments = [command]
    if model:
        arguments += [f"training:{model}", "--data", f"training:{_PROFILED[model]}"]
        arguments += ["--batch-size", "64", "--rounds", "6", "--no-layers"]
    done = subprocess.run(
        [sys.executable, "-m", "tfmp.commands.cli", *arguments, "--json"],
        cwd=_HERE,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise RuntimeError(f"status {done.returncode}: {said[-1]}")
    return {
        "arguments": arguments,
        "status": done.returncode,
        "report": json.loads(done.stdout),
        "stderr": done.stderr.strip().splitlines()[-8:],
    }
