"""mps: the daemon's folder, its process, and its answer."""

import os
import subprocess
import sys

import pytest

from tfmp.machine.mps import mps_memory_limit, mps_runs


def folder_with(tmp_path, text, script=None):
    """The environment of a machine whose daemon wrote its number."""
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text(text)
    if script:
        tool = tmp_path / "nvidia-cuda-mps-control"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    return {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path), "PATH": path}


def test_a_daemon_that_is_alive(tmp_path):
    assert mps_runs(folder_with(tmp_path, f"{os.getpid()}\n"))
    assert not mps_runs({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "absent")})
    assert mps_memory_limit(2 * 2**30 + 5) == {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2048M"}


@pytest.mark.parametrize("text", ["", "no number"])
def test_a_broken_file_is_no_daemon(tmp_path, text):
    assert not mps_runs(folder_with(tmp_path, text))


def test_a_daemon_that_has_ended_or_is_outside(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    ended = str(process.pid)
    assert not mps_runs(folder_with(tmp_path, ended))
    assert not mps_runs(folder_with(tmp_path, ended, script="exit 1"))
    script = '[ "$(cat)" = get_server_list ]'
    assert mps_runs(folder_with(tmp_path, ended, script=script))
