"""XLA's programs (HLO) as text, read into instructions.

TensorFlow and JAX both hand a program to XLA in this language. A line is one instruction:

    ROOT y.1 = f32[8,64]{1,0} dot(x.1, w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

# Bytes of one number, by XLA's name of the dtype (xla/primitive_util.h). Tokens have no data.
_BYTES = {
    **dict.fromkeys(("pred", "s8", "u8", "s4", "u4"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
    "token": 0,
}

_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}

_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+)\s*(\(.*)?\{$")
_ASSIGNED = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)")
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"(\w+)\[([\d,<=]*)\](\{[^}]*\})?|token\[\]")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Array:
    """The shape of one array.

    Attributes:
        dtype: XLA's name, such as "f32".
        dims: its sizes.
    """

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self.size * _BYTES.get(self.dtype, 1)

    @property
    def floating(self) -> str | None:
        """NumPy's name of a floating-point dtype; None for other dtypes."""
        return _FLOATS.get(self.dtype)


Shape: TypeAlias = "Array | tuple[Shape, ...]"


@dataclass(frozen=True)
class Instruction:
    """One line of a program.

    Attributes:
        name: its name, which is unique in its computation.
        opcode: its operation, such as "dot".
        shape: the shape of its result.
        operands: names of its operands; for a constant or a parameter the text in the brackets.
        attributes: the text after the operands.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    attributes: str

    def text(self, attribute: str) -> str | None:
        """The value of an attribute as it is written, without braces."""
        found = re.search(
            rf"\b{attribute}=(?:\{{([^}}]*)\}}|\"([^\"]*)\"|([^\s,]+))", self.attributes
        )
        return next((part for part in found.groups() if part is not None), None) if found else None

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """The value of an attribute that is a list of numbers; empty without this attribute."""
        return tuple(int(number) for number in re.findall(r"-?\d+", self.text(attribute) or ""))

    def computation(self, attribute: str) -> str:
        """The name of the computation that an attribute names."""
        return (self.text(attribute) or "").lstrip("%")

    @property
    def array(self) -> Array:
        """The shape of the result, or of the first array in it."""
        shape = self.shape
        while isinstance(shape, tuple):
            shape = shape[0] if shape else Array("token", ())
        return shape


@dataclass(frozen=True)
class Computation:
    """A function of a program.

    Attributes:
        name: its name.
        instructions: operands stand before the instructions that use them.
        root: the instruction whose result is returned.
    """

    name: str
    instructions: tuple[Instruction, ...]
    root: Instruction

    @cached_property
    def needed(self) -> tuple[Instruction, ...]:
        """The instructions that the result depends on; XLA removes the others."""
        by_name = {line.name: line for line in self.instructions}
        seen, pending = set(), [self.root.name]
        while pending:
            name = pending.pop()
            if name in by_name and name not in seen:
                seen.add(name)
                pending += by_name[name].operands
        return tuple(line for line in self.instructions if line.name in seen)


@dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        computations: its functions by name.
        entry: name of the function that begins.
    """

    computations: Mapping[str, Computation]
    entry: str


def parse_program(text: str) -> Program:
    """Reads the text of an HLO module.

    Raises:
        ValueError: the text has no entry computation, or a line cannot be read.
    """
    computations: dict[str, Computation] = {}
    entry = name = ""
    lines: list[Instruction] = []
    root: Instruction | None = None
    for line in text.splitlines():
        header = _HEADER.fullmatch(line.rstrip()) if line[:1] not in ("", " ", "}") else None
        if header:
            name, lines, root = header[2], [], None
            entry = name if header[1] else entry
        elif line.startswith("}") and lines:
            computations[name] = Computation(name, tuple(lines), root or lines[-1])
        else:
            found = _ASSIGNED.fullmatch(_COMMENT.sub("", line))
            if found:
                lines.append(_instruction(found[2], found[3]))
                root = lines[-1] if found[1] else root
    if entry not in computations:
        raise ValueError(
            f"A program expects XLA's HLO text with an ENTRY computation; received {text[:60]!r}."
        )
    return Program(computations, entry)


def _instruction(name: str, text: str) -> Instruction:
    end = _end(text, 0) if text.startswith("(") else text.index(" ")
    shape, rest = text[:end], text[end:].strip()
    opcode, bracket, _ = rest.partition("(")
    if not bracket:
        raise ValueError(
            f"An HLO instruction expects operands in brackets; received {text[:80]!r}."
        )
    close = _end(rest, len(opcode))
    inside = rest[len(opcode) + 1 : close - 1]
    if opcode not in ("constant", "parameter"):
        operands = tuple(part.split()[-1].lstrip("%") for part in _parts(inside))
    else:
        operands = (inside,)
    return Instruction(name, opcode, _shape(shape), operands, rest[close:])


def _end(text: str, start: int) -> int:
    """The place after the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in _OPENING) - (text[place] in _CLOSING)
        if not depth:
            return place + 1
    raise ValueError(f"An HLO instruction expects closed brackets; received {text[:80]!r}.")


def _parts(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth, begin = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in _OPENING) - (char in _CLOSING)
        if char == "," and not depth:
            parts.append(text[begin:place])
            begin = place + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def _shape(text: str) -> Shape:
    if text.startswith("("):
        return tuple(_shape(part) for part in _parts(text[1:-1]))
    found = _ARRAY.match(text)
    if not found or not found[1]:
        return Array("token", (0,))
    return Array(found[1], tuple(int(size) for size in re.findall(r"\d+", found[2])))
