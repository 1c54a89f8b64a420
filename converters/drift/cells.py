"""Decisions by where they stand: a column that answers every sample alike hides among others.

Answers that stand side by side share their classes: forty flags are set or not, and twelve
questions have the same nine answers. So the decisions of each column, and those of each line along
the other axes, are counted by what they say, as those of classes are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from zlib import crc32

import numpy as np

from tfmp.converters.drift.classes import MOST_CLASSES, ClassTable, count_classes, count_labels

# A last axis of this length behind others holds columns; a longer one may be the width of a map.
_COLUMNS = 16

# Of more places in a sample none is counted by itself: each has three answers at least.
_PLACES = MOST_CLASSES // 3


@dataclass(frozen=True)
class Cells:
    """Counts by place and answer; they merge exactly.

    Attributes:
        columns: of each column, which means something by itself.
        lines: of each place of a single sample, or of each line along an axis, which may be no more
            than the edge of a map: of these only an answer that is mostly lost tells something.
    """

    columns: ClassTable = field(default_factory=ClassTable)
    lines: ClassTable = field(default_factory=ClassTable)


@dataclass(frozen=True)
class _Line:
    """Places along one axis, or all places of a sample.

    Attributes:
        axis: the axis, batch first; None for all places.
        count: how many there are.
    """

    axis: int | None
    count: int

    def of(self, shape: Sequence[int]) -> np.ndarray:
        """The number of the place that each value of such a sample is at."""
        places = np.arange(self.count)
        if self.axis is None:
            return places.reshape(shape[1:])
        return places.reshape([-1 if axis == self.axis else 1 for axis in range(1, len(shape))])


def count_cells(
    reference: np.ndarray,
    candidate: np.ndarray,
    changed: np.ndarray,
    read: np.ndarray | None = None,
    *,
    columns: bool = True,
) -> Cells:
    """Counts one batch of answers: numbers, flags or texts.

    Numbers from -1 on have classes of their own at each place, as far as `MOST_CLASSES` has room;
    those beyond, and texts, share the rest.

    Args:
        reference: the reference's answers, batch first.
        candidate: those of the candidate.
        changed: whether an answer changed.
        read: whether somebody reads an answer; None for all.
        columns: whether a last axis that stands alone, or is short, holds columns.
    """

    def counted(lines: Sequence[_Line], column: bool) -> ClassTable:
        places = sum(line.count for line in lines)
        if not places:
            return ClassTable()
        kind = reference.dtype.kind
        classes = 2 if kind == "b" else MOST_CLASSES // places
        sides = [_classes(values, classes) for values in (reference, candidate)]
        answers = _answers("n" if kind in "iuf" else kind, classes)
        table = ClassTable()
        for line in lines:
            table = table.merged(_of_line(line, sides, changed, read, answers, column))
        return table

    axes = _axes(reference.shape)
    if not axes:
        return Cells()
    *others, last = axes
    if columns and not others:
        return Cells(counted(_few([last]), True))
    column = [last] if columns and last.count <= _COLUMNS else []
    lines = _lines([*others, *([] if column else [last])], reference.shape)
    return Cells(counted(column, True), counted(lines, False))


def count_flags(yes: np.ndarray, said: np.ndarray, changed: np.ndarray) -> Cells:
    """Counts one batch of decisions for or against each value, of which a yes says something.

    The last axis is that of the labels, which have classes already.

    Args:
        yes: the reference's decisions, batch first.
        said: those of the candidate.
        changed: whether a decision changed.
    """
    shape, table = yes.shape, ClassTable()
    for line in _lines(_axes(shape[:-1]), shape):
        # The places last, for which nothing has to move where a place is a whole sample's.
        flags = (
            each if line.axis is None else np.moveaxis(each, line.axis, -1)
            for each in (yes, said, changed)
        )
        found = count_labels(*(each.reshape(len(yes), -1, line.count) for each in flags))
        names = _names(line, ("yes",), shape[1:], False)
        rows = {names[int(place)]: row for place, row in found.rows.items()}
        table = table.merged(ClassTable(rows))
    return Cells(lines=table)


def _axes(shape: Sequence[int]) -> list[_Line]:
    return [_Line(axis, shape[axis]) for axis in range(1, len(shape)) if shape[axis] > 1]


def _lines(axes: list[_Line], shape: Sequence[int]) -> list[_Line]:
    """Lines along these axes, and all places of a sample if they are few, as far as they fit."""
    places = prod(shape[1:])
    every = [_Line(None, places)] if places <= _PLACES and len(_axes(shape)) > 1 else []
    return _few([*sorted(axes, key=lambda line: line.count), *every])


def _few(lines: list[_Line]) -> list[_Line]:
    """The first of them that have two classes each in a table."""
    while 2 * sum(line.count for line in lines) > MOST_CLASSES:
        lines = lines[:-1]
    return lines


def _of_line(
    line: _Line,
    sides: Sequence[np.ndarray],
    changed: np.ndarray,
    read: np.ndarray | None,
    answers: tuple[str, ...],
    column: bool,
) -> ClassTable:
    shape = changed.shape
    start = line.of(shape) * len(answers)
    places = [side + start if read is None else np.where(read, side + start, -1) for side in sides]
    # Where a sample has one decision at a place, each may as well be a sample of its own.
    flat = (-1, 1) if line.count == prod(shape[1:]) else (len(changed), -1)
    one, other, lost = (array.reshape(flat) for array in (*places, changed))
    return count_classes(one, other, lost, _names(line, answers, shape[1:], column))


@cache
def _names(
    line: _Line, answers: tuple[str, ...], shape: tuple[int, ...], column: bool
) -> list[str]:
    """A name for each answer at each place of a sample of this shape."""
    if column:
        places = [f"in column {place}" for place in range(line.count)]
    elif line.axis is None:
        places = [f"at {at}" for at in np.ndindex(*shape)]
    else:
        places = [f"at {place} of axis {line.axis}" for place in range(line.count)]
    return [f"{answer} {place}" for place in places for answer in answers]


def _classes(values: np.ndarray, classes: int) -> np.ndarray:
    """The class of each answer at its place, below `classes`."""
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind not in "iuf":
        known, at = np.unique(values, return_inverse=True)
        return np.array([_class_of_text(text, classes) for text in known.tolist()])[
            at.reshape(values.shape)
        ]
    own = _own(classes)
    with np.errstate(invalid="ignore"):
        numbers = np.where(np.isfinite(values), values, 0).astype(np.int64)
    inside = (values >= -1) & (values < own - 1)
    if classes == own + 1:
        return np.where(inside, numbers + 1, own)
    return np.where(inside, numbers + 1, own + numbers % (classes - own))


def _own(classes: int) -> int:
    """How many numbers from -1 on have a class of their own."""
    return classes - 1 if classes < 2 * _COLUMNS else classes // 2


def _class_of_text(text: object, classes: int) -> int:
    """Class 0 for none; the others are shared."""
    data = text if isinstance(text, bytes) else str(text).encode()
    return 1 + crc32(data) % (classes - 1) if data else 0


@cache
def _answers(kind: str, classes: int) -> tuple[str, ...]:
    """The names of the classes of a place, for flags ("b"), numbers ("n") and texts."""
    if kind == "b":
        return "0", "1"
    if kind != "n":
        return "no text", *(f"a text of group {group}" for group in range(1, classes))
    own = _own(classes)
    shared = classes - own
    others = [f"a number of group {group}" for group in range(shared)]
    return *map(str, range(-1, own - 1)), *(others if shared > 1 else ["another number"])
