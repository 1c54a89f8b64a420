"""How often a loop of an XLA program runs: its counter is computed, and nothing else.

XLA's own cost analysis counts the body of a loop once, so that a recurrent layer would be too cheap
by its number of time steps.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tfmp.roofline.program import Array, Instruction, Program

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
_LITERALS = ("preds", "s32s", "s64s", "u32s", "u64s")


def run_loop(program: Program, loop: Instruction, start: Known) -> tuple[int | None, Known]:
    """The number of times a `while` runs its body, and the last state, as far as it is known.

    The number is None if it depends on data.

    Args:
        program: the program that the loop is in.
        loop: the instruction.
        start: the loop's first state, as far as it is known.
    """
    body, condition = loop.calls
    state = start
    for trips in range(_MOST_TRIPS):
        goes_on = _run(program, condition, (state,))
        if goes_on is None or isinstance(goes_on, tuple):
            break
        if not goes_on:
            return trips, state
        state = _run(program, body, (state,))
    return None, None


def fold(program: Program, line: Instruction, operands: Sequence[Known]) -> Known:
    """The result of an instruction on whole numbers, if it is one and can be known."""
    first = operands[0] if operands else None
    if line.opcode == "get-tuple-element":
        return first[line.proto.tuple_index] if isinstance(first, tuple) else None
    if line.opcode == "tuple":
        return tuple(operands)
    if line.opcode == "call":
        return _run(program, line.calls[0], operands)
    if not isinstance(line.shape, Array) or line.shape.size != 1 or line.shape.floating:
        return None
    if line.opcode == "constant":
        found = [number for kind in _LITERALS for number in getattr(line.proto.literal, kind)]
        return int(found[0]) if found else None
    if line.opcode in _SAME:
        return first
    numbers = [value for value in operands if isinstance(value, int)]
    if len(numbers) != len(operands):
        return None
    if line.opcode in _BINARY:
        return _BINARY[line.opcode](*numbers)
    if line.opcode == "compare":
        return getattr(operator, line.proto.comparison_direction.lower())(*numbers)  # LT, GE ...
    return None


def _run(program: Program, number: int, arguments: Sequence[Known]) -> Known:
    """The result of a computation on whole numbers, as far as it can be known."""
    values: dict[int, Known] = {}
    for line in program.computations[number]:
        if line.opcode == "parameter":
            result = arguments[line.proto.parameter_number]
        else:
            result = fold(program, line, [values[n] for n in line.proto.operand_ids])
        values[line.proto.id] = result
    return result
