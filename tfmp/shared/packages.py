"""The software and the processor that reports name, and the package of a line of code."""

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

__version__ = version("tfmp")

_FRAMEWORKS = ("tensorflow", "keras", "jax", "jaxlib", "torch", "numpy", "optree")


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions by package name, in the order given; packages that are absent are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def processor_name() -> str:
    """The processor as its maker names it, where the system tells; otherwise its type."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def user_line(frames: Iterable[tuple[str, int | None]]) -> str:
    """The innermost frame outside the libraries, as "file.py:12"; empty if there is none.

    Args:
        frames: file name and line, the innermost first; frames behind this package's own are not
            looked at.
    """
    for filename, line in frames:
        if is_in("tfmp", filename):
            return ""
        if not any(is_in(package, filename) for package in _FRAMEWORKS):
            return f"{os.path.basename(filename)}:{line}"
    return ""


def is_in(package: str, filename: str) -> bool:
    """Whether a file belongs to an imported package."""
    module = sys.modules.get(package)
    folder = os.path.dirname(getattr(module, "__file__", None) or "")
    return bool(folder) and filename.startswith(folder + os.sep)
