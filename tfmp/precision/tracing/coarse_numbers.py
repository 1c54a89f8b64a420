"""Numbers that fit in FP16 and are too coarse there: whole numbers, and angles of sines."""

import math

from tfmp.precision.tracing.values import (
    COMPARES,
    CONTRACTIONS,
    DIVIDES,
    FROM_INTEGERS,
    JOINS,
    MOVES,
    RANGES,
    SELECTS,
    SIZES,
    SUMS,
    Value,
)

# FP16 has 11 significant bits: from here on it rounds odd numbers.
LARGEST_EXACT_INTEGER = 2048

# An angle past this one is off by 1/32 or more in FP16.
LARGEST_ANGLE = 64

_WAVES = frozenset("sin cos tan".split())


def coarse_integers(value: Value) -> Value | None:
    """The whole numbers that a value is computed from, if FP16 may not tell them apart.

    Masks and counts may be rounded: they are multiplied with data, or divide them.
    """
    if value.kind in RANGES:
        return value if value.bound > LARGEST_EXACT_INTEGER else None
    if value.kind in MOVES:
        return None
    for place, source in enumerate(value.sources):
        numbers = _converted(source)
        if numbers is None or numbers.bound <= LARGEST_EXACT_INTEGER or _is_size(numbers):
            continue
        others = [one for one in value.sources if one is not source]
        if not _takes_masks(value.kind, place, others):
            return numbers
    return None


def _converted(value: Value) -> Value | None:
    while value.kind in MOVES and value.kind != FROM_INTEGERS and value.sources:
        value = value.sources[0]
    return value if value.kind == FROM_INTEGERS else None


def _is_size(value: Value) -> bool:
    """Whether a number is computed from sizes of tensors alone."""
    if value.kind in SIZES or (value.constant is not None and value.constant.size == 1):
        return True
    return value.kind not in RANGES and bool(value.sources) and all(map(_is_size, value.sources))


def _takes_masks(kind: str, place: int, others: list[Value]) -> bool:
    """Whether an operation is one that masks and counts are made for."""
    if kind in COMPARES | SELECTS | SUMS or (kind in DIVIDES and place == 1):
        return True
    if kind == "sub":
        return all(one.constant is not None and one.bound <= 1 for one in others)
    if kind == "mul" or kind in CONTRACTIONS:
        return all(not one.is_fixed and not one.is_weight() for one in others)
    return kind in ("maximum", "max_of_two")


def widest_angle(value: Value) -> float | None:
    """The largest angle that a sine may be taken of, if FP16 holds it too coarsely.

    It is infinity for the products of data with a table of frequencies, as in encodings of places
    and times: nobody knows how large the data are.
    """
    if value.kind not in _WAVES:
        return None
    angle = value.sources[0]
    reached = angle.bound if math.isfinite(angle.bound) else _reach(angle)
    return reached if reached >= LARGEST_ANGLE else None


def _reach(value: Value) -> float:
    """The largest magnitude of a value whose data are about 1."""
    if math.isfinite(value.bound):
        return value.bound
    if value.is_fixed:
        return math.inf  # as long as an axis
    if value.kind in MOVES or value.kind == "neg":
        return _reach(value.sources[0])
    if value.kind in JOINS:
        return max(map(_reach, value.sources))
    if value.kind == "mul" and any(_is_table(one) for one in value.sources):
        return math.inf
    known = [one for one in value.sources if one.is_fixed]
    others = [one for one in value.sources if not one.is_fixed]
    if len(others) != 1:
        return 1.0
    if value.kind == "mul" or value.kind in CONTRACTIONS:
        return _reach(others[0]) * math.prod(one.bound for one in known)
    if value.kind in DIVIDES and value.sources[0] is others[0] and known[0].low > 0:
        return _reach(others[0]) / known[0].low
    return 1.0


def _is_table(value: Value) -> bool:
    """Whether a value is a constant with several different numbers."""
    return value.is_fixed and value.low < value.high
