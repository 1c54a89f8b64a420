"""The memory that is left for more training: of the card, or of the computer."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfmp.machine.devices import accelerators
from tfmp.machine.nvml import NoNvml, opened_nvml, told, visible_cards
from tfmp.shared.backend import current_backend

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory(in_this_process: bool = False) -> int | None:
    """Bytes that are free on the first card, or in the computer where there is no card.

    Args:
        in_this_process: whether this process would use them. TensorFlow and JAX take nearly the
            whole card when they begin: what their allocators have left is free for this process.

    Returns:
        The bytes; None where nobody tells.
    """
    if not accelerators():
        return free_host_memory()
    left = current_backend().memory_left() if in_this_process else None
    if left is not None:
        return left
    memory = _on_card(os.environ)
    return int(memory.free) if memory else None


def card_memory(device: str) -> int | None:
    """All bytes of a card or MIG instance.

    Args:
        device: as in CUDA_VISIBLE_DEVICES; empty for the first that this process sees.
    """
    memory = _on_card({"CUDA_VISIBLE_DEVICES": device} if device else os.environ)
    return int(memory.total) if memory else None


def free_host_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Bytes of the computer's memory that are free, within the limit of a container."""
    try:
        rows = dict(line.split(":") for line in meminfo.read_text("ascii").splitlines())
        free = int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    limit, used = _count(cgroup / "memory.max"), _count(cgroup / "memory.current")
    if limit is None or used is None:
        return free
    # The cache of files gives way to a process that needs memory.
    return max(0, min(free, limit - used + _cache(cgroup / "memory.stat")))


def _cache(file: Path) -> int:
    try:
        rows = dict(line.split() for line in file.read_text("ascii").splitlines())
        return int(rows["inactive_file"])
    except (OSError, KeyError, ValueError):
        return 0


def _count(file: Path) -> int | None:
    """A number in a control group's file; None for "max" and where there is no such file."""
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _on_card(environment: Mapping[str, str]) -> Any:
    """NVML's memory of the first card that a process with this environment sees, or None."""
    try:
        with opened_nvml() as nvml:
            card = next(iter(visible_cards(nvml, environment)), None)
            return None if card is None else told(nvml.nvmlDeviceGetMemoryInfo, card)
    except NoNvml:
        return None
