"""Exponentials and powers of traced values: those of small values fit in FP16, as in a softmax."""

import math
from dataclasses import dataclass

import numpy as np

from tfmp.shared.numerics import FLOAT16

# The exponential of a larger number is infinite in FP16.
LARGEST_EXPONENT = 11.0

# From this power on, and from this negative one down, powers of activations leave FP16's range.
_HIGH_POWER = 3
_LOW_POWER = -2

# Operations of TensorFlow and primitives of JAX, in lower case.
_MOVES = frozenset(
    "cast identity stopgradient reshape expanddims squeeze transpose broadcastto stridedslice name "
    "convert_element_type broadcast_in_dim stop_gradient copy slice rev pack concatv2 "
    "concatenate".split()
)
_REDUCES_TO_MAX = frozenset("max_over_axes reduce_max".split())
_FITS = frozenset("tanh sigmoid logistic erf sin cos sign logsoftmax log log1p".split())
_WITHIN_1 = frozenset("tanh sigmoid logistic erf sin cos sign softmax".split())
_CLAMPS = frozenset("clamp clipbyvalue".split())
_LIMITS = frozenset("minimum maximum min_of_two max_of_two".split())
_AT_LEAST_0 = frozenset(
    "abs square squareddifference relu relu6 sqrt softplus exp exp2 sigmoid logistic".split()
)
_SUMS = frozenset("sum mean reduce_sum max_over_axes reduce_max min reduce_min".split())
_PRODUCTS = frozenset("mul realdiv div".split())


@dataclass(frozen=True, eq=False)
class Value:
    """A value in a traced graph.

    Attributes:
        kind: the operation that made it, in lower case; empty if it is unknown.
        sources: the values that went in.
        constant: the numbers, if they are known.
        power: the exponent of a power.
        key: of one tensor, all values have the same; None for a value that is equal only to itself.
    """

    kind: str = ""
    sources: "tuple[Value, ...]" = ()
    constant: np.ndarray | None = None
    power: float = 1.0
    key: int | None = None

    def equals(self, other: "Value") -> bool:
        """Whether both are the same tensor."""
        return self is other or (self.key is not None and self.key == other.key)


def fits(value: Value) -> bool:
    """Whether the exponential of a value is finite in FP16, whatever the data are."""
    kind, sources = value.kind, value.sources
    if value.constant is not None:
        return bool(np.all(value.constant <= LARGEST_EXPONENT))
    if kind in _FITS:
        return True
    if kind in _MOVES:
        return all(map(fits, sources[:1]))
    if kind == "sub":
        return _reduced_to_max(sources[1]) or (fits(sources[0]) and _at_least_0(sources[1]))
    if kind == "neg":
        return _at_least_0(sources[0])
    if kind in _PRODUCTS:
        return any(_at_most_0(one, other) for one, other in (sources, sources[::-1]))
    if kind in ("minimum", "min_of_two"):
        return any(map(fits, sources))
    if kind in _CLAMPS:
        return fits(sources[2])
    if kind in ("maximum", "max_of_two"):
        return all(map(fits, sources))
    if kind in ("select", "selectv2", "select_n"):
        first, *others = sources[1:]
        guarded = kind == "select_n" and _is_above(sources[0], first)
        return (guarded or fits(first)) and all(map(fits, others))
    return False


def high_power(value: Value) -> float | None:
    """The exponent of the power that a value is, if that power of activations may be infinite."""
    base, power = _as_power(value)
    bound = _bound(base)
    fits_in = bound < FLOAT16.overflow_threshold ** (1 / power) if power > 0 else False
    if base.constant is not None or fits_in or _LOW_POWER < power < _HIGH_POWER:
        return None
    return power


def _as_power(value: Value) -> tuple[Value, float]:
    """A value as the power of another one."""
    kind, sources = value.kind, value.sources
    if kind in _MOVES and sources:
        return _as_power(sources[0])
    if kind == "square":
        base, power = _as_power(sources[0])
        return base, 2 * power
    if kind in ("pow", "integer_pow") and value.power != 1.0:
        base, power = _as_power(sources[0])
        return base, value.power * power
    if kind == "mul":
        (one, first), (other, second) = map(_as_power, sources)
        if one.equals(other):
            return one, first + second
    return value, 1.0


def _bound(value: Value) -> float:
    """The largest magnitude that a value can have, as far as its operations show it."""
    kind, sources = value.kind, value.sources
    if value.constant is not None:
        return float(np.max(np.abs(value.constant), initial=0.0))
    if kind in _WITHIN_1:
        return 1.0
    limits = [_bound(one) for one in sources if _is_constant(one)]
    if kind in _LIMITS:
        other = [part for one in sources if one.kind in _LIMITS - {kind} for part in one.sources]
        limits += [_bound(one) for one in other if _is_constant(one)]
    if kind in _LIMITS | _CLAMPS:
        return max(limits) if len(limits) == 2 else math.inf
    return _bound(sources[0]) if kind in _MOVES and sources else math.inf


def _is_constant(value: Value) -> bool:
    moved = value.kind in _MOVES and any(map(_is_constant, value.sources[:1]))
    return moved or value.constant is not None


def _is_above(condition: Value, value: Value) -> bool:
    """Whether a condition is true where a value is large; JAX's `elu` then takes the other case."""
    if condition.kind not in ("gt", "ge"):
        return False
    compared, bound = condition.sources
    return compared is value and fits(bound)


def _at_most_0(one: Value, other: Value) -> bool:
    """Whether a product or quotient cannot grow, by its first factor."""
    if one.constant is not None and np.all(one.constant <= 0):
        return _at_least_0(other)
    return fits(one) and one.constant is None and _at_least_0(other)


def _at_least_0(value: Value) -> bool:
    kind, sources = value.kind, value.sources
    if value.constant is not None:
        return bool(np.all(value.constant >= 0))
    if kind in _AT_LEAST_0:
        return True
    if kind in _MOVES or kind in _SUMS:
        return all(map(_at_least_0, sources[:1]))
    if kind in ("add", "addv2", "add_any") or kind in _PRODUCTS:
        squares = kind == "mul" and sources[0].equals(sources[1])
        return squares or all(map(_at_least_0, sources))
    if kind in ("maximum", "max_of_two"):
        return any(map(_at_least_0, sources))
    return kind in ("integer_pow", "pow") and value.power % 2 == 0


def _reduced_to_max(value: Value) -> bool:
    if value.kind in _REDUCES_TO_MAX:
        return True
    if value.kind in _MOVES:
        return any(map(_reduced_to_max, value.sources[:1]))
    if value.kind in ("select", "selectv2", "select_n", "maximum", "max_of_two"):
        return any(map(_reduced_to_max, value.sources))
    return False
