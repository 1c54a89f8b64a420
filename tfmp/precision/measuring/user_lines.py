"""The line of a user's code that makes float32 of 16 bits, or that fails in them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

import keras

from tfmp.precision.measuring.pieces import is_float
from tfmp.shared.packages import user_line
from tfmp.shared.wording import first_line

# Code of the frameworks, of Python and of this package is nobody's to change.
_FOREIGN = {
    "keras",
    "tensorflow",
    "jax",
    "jaxlib",
    "torch",
    "numpy",
    "tfmp",
    *sys.stdlib_module_names,
}
_FOREIGN -= {"__main__"}

# A reason in a table is one line, and Keras writes in bold.
_LONGEST_MESSAGE = 90
_BOLD = re.compile(r"\x1b\[[0-9;]*m")


def failure(error: Exception) -> str:
    """The most telling line of an exception's text, short enough for a table, and its place."""
    text = _BOLD.sub("", str(error).partition("Arguments received")[0]) or repr(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "dtype" in line or "float" in line]
    line = (telling[0] if telling else first_line(Exception(text))).rstrip(".")
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 3] + "..."
    frames = [(frame.f_code.co_filename, at) for frame, at in walk_tb(error.__traceback__)]
    where = user_line(reversed(frames))
    return f"{line}, at {where}" if where else line


def promoting_line(run: Callable[[], object]) -> str:
    """File and line after which a local variable or a result is float32 for the first time.

    Args:
        run: runs the code on 16 bits.

    Returns:
        "file:line"; "" if no line is found.
    """
    found: list[str] = []
    known: dict[FrameType, tuple[set[int], int]] = {}

    def watch(frame: FrameType, event: str, argument: Any) -> Callable | None:
        if found or str(frame.f_globals.get("__name__", "")).split(".")[0] in _FOREIGN:
            return None
        values = [*frame.f_locals.values(), *([argument] if event == "return" else [])]
        wide = {id(one) for one in values if _is_wide(one)}
        before, line = known.get(frame, (wide, frame.f_lineno))
        if wide - before:
            found.append(f"{Path(frame.f_code.co_filename).name}:{line}")
        known[frame] = (before, frame.f_lineno)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        run()
    finally:
        sys.settrace(before)
    return found[0] if found else ""


def _is_wide(value: Any) -> bool:
    return is_float(value) and keras.backend.standardize_dtype(value.dtype) == "float32"
