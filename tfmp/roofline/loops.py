"""How often a loop of an XLA program runs: its counter is computed, and nothing else.

XLA's own cost analysis counts the body of a loop once, so that a recurrent layer would be too cheap
by its number of time steps.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tfmp.roofline.hlo import Array, Instruction, Program, Shape

# A known whole number or truth value; None is an unknown one, a tuple holds several.
Known: TypeAlias = "int | tuple[Known, ...] | None"

# No recurrent layer has more time steps; a loop that goes on is taken for one of unknown length.
_MOST_TRIPS = 10_000

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "and": operator.and_,
    "or": operator.or_,
}
_SAME = ("reshape", "convert", "copy", "bitcast")


def run_loop(program: Program, loop: Instruction, start: Known) -> tuple[int | None, Known]:
    """The number of times a `while` runs its body, and the last state, as far as it is known.

    The number is None if it depends on data.

    Args:
        program: the program that the loop is in.
        loop: the instruction.
        start: the loop's first state, as far as it is known.
    """
    state = start
    for trips in range(_MOST_TRIPS):
        goes_on = _run(program, loop.computation("condition"), (state,))
        if goes_on is None or isinstance(goes_on, tuple):
            break
        if not goes_on:
            return trips, state
        state = _run(program, loop.computation("body"), (state,))
    return None, _unknown(loop.shape)


def fold(program: Program, line: Instruction, operands: Sequence[Known]) -> Known:
    """The result of an instruction on whole numbers, if it is one and can be known."""
    first = operands[0] if operands else None
    if line.opcode == "get-tuple-element":
        return first[line.numbers("index")[0]] if isinstance(first, tuple) else None
    if line.opcode == "tuple":
        return tuple(operands)
    if line.opcode == "call":
        return _run(program, line.computation("to_apply"), operands)
    if not isinstance(line.shape, Array) or line.shape.size != 1 or line.shape.floating:
        return _unknown(line.shape)
    if line.opcode == "constant":
        return _constant(line.operands[0])
    if line.opcode in _SAME:
        return first
    numbers = [value for value in operands if isinstance(value, int)]
    if len(numbers) != len(operands):
        return None
    if line.opcode in _BINARY:
        return _BINARY[line.opcode](*numbers)
    if line.opcode == "compare":
        return getattr(operator, (line.text("direction") or "EQ").lower())(*numbers)  # LT, GE ...
    return None


def _run(program: Program, name: str, arguments: Sequence[Known]) -> Known:
    """The result of a computation on whole numbers, as far as it can be known."""
    computation = program.computations[name]
    values: dict[str, Known] = {}
    for line in computation.needed:
        if line.opcode == "parameter":
            values[line.name] = arguments[int(line.operands[0])]
        else:
            operands = [] if line.opcode == "constant" else [values[n] for n in line.operands]
            values[line.name] = fold(program, line, operands)
    return values[computation.root.name]


def _unknown(shape: Shape) -> Known:
    return tuple(_unknown(part) for part in shape) if isinstance(shape, tuple) else None


def _constant(text: str) -> int | None:
    text = text.strip("{} ")
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if text.lstrip("-").isdigit() else None
