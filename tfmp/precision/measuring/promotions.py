"""The line of a user's code that makes float32 of 16 bits."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import keras

from tfmp.precision.measuring.pieces import is_float

# Code of the frameworks, of Python and of this package is nobody's to change.
_FOREIGN = {"keras", "tensorflow", "jax", "jaxlib", "numpy", "tfmp", *sys.stdlib_module_names}
_FOREIGN -= {"__main__"}


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
