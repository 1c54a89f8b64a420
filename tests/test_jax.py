"""Runs `tests/jax`, and what holds on both backends, on JAX with two virtual devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

TESTS = ROOT / "tests"

# Tests that know nothing of a backend: they run on TensorFlow and, here, on JAX.
BOTH = (
    "calibration/test_measure fit/test_callback fit/test_nonfinite_watch fit/test_preflight "
    "loss_scaling/test_attach loss_scaling/test_strategies nonfinite/test_locate "
    "precision/test_dry_run precision/test_policy precision/test_precision_layer_families "
    "precision/test_rules"
).split()

# Two minutes of compiling.
SLOW = "colocation/test_run profiling/test_profile".split()


def files(names: list[str]) -> list[Path]:
    return [TESTS / "tfmp" / f"{name}.py" for name in names]


@pytest.mark.parametrize(
    "paths",
    [[TESTS / "jax", *files(BOTH)], pytest.param(files(SLOW), marks=pytest.mark.slow)],
    ids=["fast", "slow"],
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
