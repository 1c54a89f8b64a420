"""The names of what only computes, from the lists beside this file, and walks along names."""

from collections.abc import Callable, Iterable
from pathlib import Path

ALLOW = "If you trust the source of the model, allow it with --unsafe-load (unsafe_load=True)"


def _read(name: str) -> frozenset[str]:
    lines = Path(__file__).with_name(name).read_text(encoding="ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


OPERATIONS = _read("operations.txt")
FUNCTIONS = _read("functions.txt")
CLASSES = _read("classes.txt")
METHODS = _read("methods.txt")


def reached(start: Iterable[str], after: Callable[[str], Iterable[str]]) -> set[str]:
    """Names, and all that others lead to from them."""
    found: set[str] = set()
    waiting = [*start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += after(name)
    return found
