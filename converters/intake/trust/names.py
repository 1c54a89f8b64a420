"""The names of what only computes, from the lists beside this file."""

from pathlib import Path

ALLOW = "If you trust the source of the model, allow it with --unsafe-load (unsafe_load=True)"


def _read(name: str) -> frozenset[str]:
    lines = Path(__file__).with_name(name).read_text(encoding="ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


OPERATIONS = _read("operations.txt")
FUNCTIONS = _read("functions.txt")
CLASSES = _read("classes.txt")
METHODS = _read("methods.txt")
