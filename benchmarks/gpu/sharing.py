"""Stage "sharing": every way of `tfmp colocate` on one card, by `benchmarks/colocate.py`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from stage import Case

_COLOCATE = Path(__file__).resolve().parents[1] / "colocate.py"
_SMALL = bool(os.environ.get("TFMP_GPU_SMALL"))
_SIZES = ["--rounds", "1", "--steps", "5"] if _SMALL else ["--rounds", "2"]


def cases(corpus: Path) -> dict[str, Case]:
    """JAX and PyTorch."""
    jax = {"JAX_ENABLE_X64": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {
        "colocate": Case({"KERAS_BACKEND": "jax", **jax}, fresh=True, limit_s=200.0),
        "colocate/torch": Case({"KERAS_BACKEND": "torch"}, fresh=True, limit_s=200.0),
    }


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Speed, memory and set-up of every way."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ways.json"
        command = [sys.executable, str(_COLOCATE), *_SIZES]
        done = subprocess.run([*command, "--json", str(path)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return json.loads(path.read_text(encoding="utf-8"))
