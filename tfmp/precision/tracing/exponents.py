"""Exponentials and powers of traced values: those of small values fit in FP16, as in a softmax."""

import math
from collections.abc import Iterator

import numpy as np

from tfmp.precision.tracing.values import (
    ADDS,
    CONTRACTIONS,
    DIVIDES,
    JOINS,
    LARGER,
    LARGEST_LOGARITHM,
    MOVES,
    REARRANGES,
    SAME,
    SELECTS,
    SMALLER,
    SUMS,
    Value,
    is_maximum,
    is_share,
)
from tfmp.shared.numerics import FLOAT16

# From this power on powers of activations leave FP16's range, and from this one down the gradients
# of powers of small ones.
_HIGH_POWER = 3
_LOW_POWER = -1

# So many operations are looked through between a variance and the sum of its squares.
_DEEPEST = 8

# An axis of unknown length is taken to be no longer.
_LONGEST_AXIS = 2**15

# Operations of TensorFlow and primitives of JAX, in lower case.
EXPONENTIALS = frozenset("exp exp2 expm1 sinh cosh".split())
# Results of these are near 0 where their operands are.
_KEEPS_SMALL = ADDS | CONTRACTIONS | JOINS | LARGER | MOVES | SMALLER | SUMS
_KEEPS_SMALL |= frozenset("sub neg mul cumsum clamp clipbyvalue".split()) | DIVIDES
POWERS = frozenset("pow integer_pow square mul reciprocal".split()) | DIVIDES | CONTRACTIONS


def is_large_exponential(value: Value) -> bool:
    """Whether a value is an exponential that may be infinite in FP16."""
    if value.kind == "pow":
        base, exponent = value.sources
        known = base.constant is not None and exponent.constant is None
        return known and value.bound >= FLOAT16.overflow_threshold
    if value.kind not in EXPONENTIALS:
        return False
    exponent = value.sources[0]
    largest = exponent.bound if value.kind in ("sinh", "cosh") else exponent.high
    return largest > LARGEST_LOGARITHM


def exponential_in(value: Value) -> Value | None:
    """The exponential that a value grows with, if that may be infinite in FP16."""
    if value.bound < FLOAT16.overflow_threshold:
        return None
    grown = (base for base, degree in value.growth().items() if degree > 0)
    return next(filter(is_large_exponential, grown), None)


def layers_behind(value: Value) -> frozenset[int]:
    """The other layers whose results a layer's own code computes a value from, by id."""
    found: set[int] = set()
    pending, seen = [value], {id(value)}
    while pending:
        one = pending.pop()
        if one.layer not in (None, value.layer):
            found.add(one.layer)
            continue
        pending += [source for source in one.sources if id(source) not in seen]
        seen.update(map(id, one.sources))
    return frozenset(found)


def rounded_before_logarithm(value: Value) -> frozenset[int] | None:
    """The layers that hold shares in FP16 of which a value is the logarithm, by id.

    A share is a probability, or an exponential. The gradient of its logarithm is infinite in FP16
    where it is below 1.5e-5. None if the value is no such logarithm.
    """
    if value.kind not in ("log", "log1p"):
        return None
    operand = value.sources[0]
    if operand.low + (value.kind == "log1p") >= 1 / FLOAT16.overflow_threshold:
        return None
    held: set[int] = set()
    is_of_share = False
    pending, seen = [operand], {id(operand)}
    while pending:
        one = pending.pop()
        if one.dtype == "float16" and one.layer is not None:
            held.add(one.layer)
        if _is_share(one):
            is_of_share = True
        elif one.kind in _KEEPS_SMALL and one.bound >= 1 / FLOAT16.overflow_threshold:
            pending += [source for source in one.sources if id(source) not in seen]
            seen.update(map(id, one.sources))
    return frozenset(held) if is_of_share and held else None


def _is_share(value: Value) -> bool:
    if value.kind in DIVIDES:
        return is_share(*value.sources[:2])
    if value.kind in ("exp", "exp2"):
        exponent = value.sources[0]
        return not (exponent.kind == "sub" and is_maximum(exponent.sources[1]))
    return value.kind in ("softmax", "sigmoid", "logistic")


def high_power(value: Value) -> float | None:
    """The exponent of the power that a value is, if that power of activations may be infinite.

    It is infinity if the exponent is unknown. A product counts as a power of a value that is in
    several of its factors, and only if none of them is that power already.
    """
    if value.constant is not None or value.bound < FLOAT16.overflow_threshold:
        return None
    high = max(_high_powers(value), key=abs, default=None)
    if high is None or any(_is_power_already(one, high) for one in value.sources):
        return None
    return high


def returned_power(value: Value) -> float | None:
    """The exponent of the high power that a value grows with, if it may be infinite in FP16."""
    if value.bound < FLOAT16.overflow_threshold:
        return None
    return max((one for one in _high_powers(value) if one > 0), default=None)


def _high_powers(value: Value) -> Iterator[float]:
    of_constant = (
        value.kind not in DIVIDES | CONTRACTIONS | {"mul"} or value.sources[0].constant is not None
    )
    for base, degree in value.growth().items():
        if degree >= _HIGH_POWER and base.bound >= FLOAT16.overflow_threshold ** (1 / degree):
            yield degree
        if degree <= _LOW_POWER and of_constant:
            smallest = FLOAT16.overflow_threshold ** (1 / (degree - 1))
            if base.low < smallest < base.high:
                yield degree


def _is_power_already(value: Value, power: float) -> bool:
    if value.constant is not None:
        return False
    degrees = value.growth().values()
    return max(degrees, default=0) >= power > 0 or min(degrees, default=0) <= power < 0


def small_divisor(value: Value) -> float | None:
    """The constant that a value is divided by, if its reciprocal is infinite in FP16."""
    if value.kind not in DIVIDES or value.bound < FLOAT16.overflow_threshold:
        return None
    constant = value.sources[1].constant
    if constant is None:
        return None
    sizes = np.abs(np.asarray(constant, np.float64))
    smallest = float(np.min(sizes[sizes > 0], initial=math.inf))
    return smallest if 1 / smallest >= FLOAT16.overflow_threshold else None


def is_square(value: Value) -> bool:
    """Whether a value is a square or a higher power that may be infinite in FP16."""
    if value.bound < FLOAT16.overflow_threshold:
        return False
    if value.kind == "mul":
        one, other = value.sources
        return one.same() is other.same()
    if value.kind in ("pow", "integer_pow"):
        return value.power is not None and value.power >= 2
    if value.kind in CONTRACTIONS:
        return _is_with_itself(value)
    return value.kind in ("square", "squareddifference", "euclideannorm")


def rounds_mean_square(value: Value) -> bool:
    """Whether a value is FP16's number for a variance that was taken in float32.

    Keras's `var` and `moments` do this; clipped or infinite, it divides by a wrong root in silence.
    """
    if value.kind not in SAME or value.dtype != "float16":
        return False
    return _has_mean_square(value.sources[0], _DEEPEST)


def _has_mean_square(value: Value, deepest: int) -> bool:
    if not deepest or value.dtype == "float16":
        return False
    if value.kind in SUMS | {"mean"}:
        return is_square(value.sources[0].rearranged())
    if value.kind not in REARRANGES | SMALLER | LARGER | SELECTS | DIVIDES | ADDS | {"sub"}:
        return False
    return any(_has_mean_square(one, deepest - 1) for one in value.sources)


def may_overflow(sum_: Value) -> bool:
    """Whether a sum over an axis may leave FP16's range; sums of shares, or of masks, do not."""
    if sum_.kind not in SUMS | {"cumsum"}:
        return True
    terms = min(sum_.terms, _LONGEST_AXIS)
    return min(sum_.sources[0].bound * terms, sum_.sources[0].total) >= FLOAT16.overflow_threshold


def summed_products(value: Value) -> float:
    """The number of products in each sum of a contraction of data, if it may leave FP16's range.

    Products whose signs differ cancel, and softmaxes and one-hot numbers pick some of the others.
    """
    if value.kind not in CONTRACTIONS or value.bound < FLOAT16.overflow_threshold:
        return 0.0
    if any(one.is_weight() for one in value.sources):
        return 0.0
    adds_up = any(one.low >= 0 and np.isinf(one.total) for one in value.sources)
    if len(value.sources) == 1 or _is_with_itself(value) or adds_up:
        return value.terms
    return 0.0


def _is_with_itself(value: Value) -> bool:
    moved = {id(one.rearranged()) for one in value.sources}
    return len(value.sources) == 2 and len(moved) == 1
