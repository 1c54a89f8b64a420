"""Runs `tests/tfmp/jax`, and what holds on both backends, on JAX with two virtual devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "jax"
ROOT = FOLDER.parents[2]

# Tests of this folder that know nothing of a backend: they run on TensorFlow and, here, on JAX.
SHARED = [
    FOLDER.parent / f"test_{name}.py"
    for name in (
        "attach",
        "calibration",
        "callback",
        "diagnose",
        "dry_run",
        "layer_families",
        "policy",
        "preflight",
        "rules",
        "strategies",
        "watch",
    )
]


# Two minutes of compiling.
SLOW = [FOLDER.parent / f"test_{name}.py" for name in ("colocation", "profiling")]


@pytest.mark.parametrize(
    "paths", [[FOLDER, *SHARED], pytest.param(SLOW, marks=pytest.mark.slow)], ids=["fast", "slow"]
)
def test_everything_passes_on_jax(paths):
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        # Most of the time goes into compiling functions that run once.
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true",
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *map(str, paths),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
