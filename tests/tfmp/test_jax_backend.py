"""Runs the tests of `tests/tfmp/jax` on the JAX backend, with two virtual devices."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "jax"
ROOT = FOLDER.parents[2]


def test_everything_in_the_jax_folder_passes_on_jax():
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
