"""The operations of a user's code that make what nobody wants, and the lines that call them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb

import numpy as np
from keras import ops, tree

from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.packages import user_line
from tfmp.shared.wording import first_line

# A reason in a table is one line, and Keras writes in bold.
_LONGEST_MESSAGE = 90
_BOLD = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class FirstOp:
    """An operation whose result is infinite and its inputs finite, or NaN and none of these was.

    Attributes:
        name: TensorFlow op type, JAX primitive or operator of PyTorch, such as "Log" or "log".
        dtype: dtype of the result that is not finite.
        where: "file.py:12" in the user's code that called it; None inside a library.
        masks: it multiplies flags by a constant that is infinite in its dtype, such as -1e9.
    """

    name: str
    dtype: str
    where: str | None = None
    masks: bool = False

    def __str__(self) -> str:
        return f"{self.name} in {self.dtype}" + (f" at {self.where}" if self.where else "")


def first_nonfinite_op(function: Callable[..., TensorTree], *args: TensorTree) -> FirstOp | None:
    """Runs a function of backend tensors, op by op, until an op makes a number that is not finite.

    Returns:
        The operation; without one, the first that hands an infinite constant on, as masks do. None
        if there is none, or if it is part of a compiled function.
    """
    return _first(_is_bad, function, args) or _first(_hands_constant_on, function, args)


# Gets the floating-point inputs and outputs of an operation; whether it is the one.
_Sought = Callable[[list[np.ndarray], list[np.ndarray]], bool]


def _hands_constant_on(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    return any(map(_is_infinite_constant, inputs)) and any(np.isinf(one).any() for one in outputs)


def _is_infinite_constant(values: np.ndarray) -> bool:
    return values.size == 1 and bool(np.isinf(values).all())


def _masks(inputs: list[np.ndarray]) -> bool:
    others = [values for values in inputs if not _is_infinite_constant(values)]
    flags = [bool(np.isin(values, (0, 1)).all()) for values in others]
    return 0 < len(others) < len(inputs) and all(flags)


def _is_bad(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    # An op without floating-point inputs made its infinity on purpose, as a mask or a start value.
    if not inputs:
        return False
    for is_odd in (np.isnan, lambda values: ~np.isfinite(values)):
        if any(is_odd(value).any() for value in outputs):
            return not any(is_odd(value).any() for value in inputs)
    return False


def _first(
    sought: _Sought, function: Callable[..., TensorTree], args: tuple[TensorTree, ...]
) -> FirstOp | None:
    found: list[FirstOp] = []

    def look(
        name: str, inputs: TensorTree, outputs: TensorTree, where: Callable[[], str | None]
    ) -> bool:
        given, results = _floats(inputs), _floats(outputs)
        arrays = [values for _, values in given]
        if not results or not sought(arrays, [values for _, values in results]):
            return False
        found.append(FirstOp(name, results[0][0], where(), _masks(arrays)))
        return True

    current_backend().operations(function, args, look)
    return found[-1] if found else None  # the innermost


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


def _floats(values: TensorTree) -> list[tuple[str, np.ndarray]]:
    """The floats among values, which may be constants of a program, too, with their dtypes."""
    named = [(_dtype_name(one), one) for one in tree.flatten(values)]
    floats = [(name, one) for name, one in named if name.startswith(("float", "bfloat"))]
    return [(name, ops.convert_to_numpy(one).astype(np.float64)) for name, one in floats]


def _dtype_name(value: object) -> str:
    dtype = getattr(value, "dtype", "")
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")
