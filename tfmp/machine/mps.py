"""NVIDIA's Multi-Process Service: whether kernels of several processes can run at the same time.

NVIDIA, "Multi-Process Service", appendix "Tools and Interface Reference": the control daemon keeps
its pipes and the file of its number in one folder. CUDA connects to it by itself when a process
starts, and goes on without it where there is none.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_DEFAULT_PIPES = "/tmp/nvidia-mps"
_DAEMON = "nvidia-cuda-mps-control"
_PATIENCE_S = 10


def mps_runs(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether processes with this environment compute under the service."""
    folder = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or _DEFAULT_PIPES)
    try:
        pid = int((folder / f"{_DAEMON}.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False
    return _is_alive(pid) or _answers(environment)


def mps_memory_limit(limit: int) -> dict[str, str]:
    """The variables that let the service hold a process to so many bytes of its first card."""
    return {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={max(1, limit // 2**20)}M"}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's, root's as a rule
        return True
    except OSError:
        return False
    return True


def _answers(environment: Mapping[str, str]) -> bool:
    """Whether the daemon answers: a container may share its pipes without seeing its process."""
    tool = shutil.which(_DAEMON, path=environment.get("PATH"))
    if tool is None:
        return False
    try:
        done = subprocess.run(
            [tool],
            input="get_server_list\n",
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
