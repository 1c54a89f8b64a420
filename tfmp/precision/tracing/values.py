"""Values in a traced graph: the range that each one can have, and how fast it grows with others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tfmp.shared.numerics import FLOAT16

# A logarithm of a number in FP16 is no larger.
LARGEST_LOGARITHM = math.log(FLOAT16.overflow_threshold)

# Operations of TensorFlow and primitives of JAX, in lower case.
_SAME = frozenset("cast identity stopgradient name convert_element_type stop_gradient copy".split())
_MOVES = _SAME | frozenset(
    "reshape expanddims squeeze transpose broadcastto stridedslice broadcast_in_dim slice rev "
    "split splitv unpack gather gatherv2 dynamic_slice".split()
)
_JOINS = frozenset("pack concatv2 concatenate".split())
_SUMS = frozenset("sum reduce_sum".split())
_AMONG = frozenset("mean max_over_axes reduce_max min_over_axes reduce_min".split())
_MAXIMA_OVER_AXES = frozenset("max_over_axes reduce_max".split())
_ADDS = frozenset("add addv2 add_any".split())
_DIVIDES = frozenset("realdiv div".split())
_SMALLER = frozenset("minimum min_of_two".split())
_LARGER = frozenset("maximum max_of_two".split())
_SELECTS = frozenset("select selectv2 select_n".split())
_ABOVE = frozenset("gt ge greater greaterequal".split())
_BELOW = frozenset("lt le less lessequal".split())
_POWERS = frozenset("pow integer_pow".split())
_WITHIN = {
    **dict.fromkeys("tanh erf sin cos sign".split(), (-1.0, 1.0)),
    **dict.fromkeys("sigmoid logistic softmax".split(), (0.0, 1.0)),
    "logsoftmax": (-math.inf, 0.0),
    "relu6": (0.0, 6.0),
    **dict.fromkeys("shape dim_as_value".split(), (1.0, math.inf)),
}
# They grow as their operand does, and are no smaller than these numbers.
_AS_LINEAR = {"relu": 0.0, "softplus": 0.0, "elu": -1.0, "selu": -1.76, "leakyrelu": -math.inf}
_FIXED_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}

Interval = tuple[float, float]
_ANY: Interval = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Value:
    """A value in a traced graph.

    Attributes:
        kind: the operation that made it, in lower case; empty if it is unknown.
        sources: the values that went in.
        constant: the numbers, if they are known.
        power: the exponent of a power, if it is known.
        low, high: all its numbers lie between these, whatever the data are.
        degrees: the powers of other values that it grows with.
        is_sum: whether it is a sum, so that it need not be 0 where a summand is.
    """

    kind: str = ""
    sources: "tuple[Value, ...]" = ()
    constant: np.ndarray | None = None
    power: float | None = None
    low: float = -math.inf
    high: float = math.inf
    degrees: "Mapping[Value, float]" = field(default_factory=dict)
    is_sum: bool = False

    @property
    def bound(self) -> float:
        """The largest magnitude that it can have."""
        return max(abs(self.low), abs(self.high))

    def growth(self) -> "Mapping[Value, float]":
        """The degrees of values that it grows with: its own, if its operation is no arithmetic."""
        if self.bound <= 1:
            return {}
        return self.degrees or {self: 1.0}

    def same(self) -> "Value":
        """The value that this one is a copy of, perhaps in another dtype."""
        value = self
        while value.kind in _SAME and value.sources:
            value = value.sources[0]
        return value


def value_of(
    kind: str,
    sources: tuple[Value, ...] = (),
    constant: np.ndarray | None = None,
    power: float | None = None,
) -> Value:
    """The value that an operation makes.

    Args:
        kind: the operation, in lower case.
        sources: its operands.
        constant: the numbers of the result, if they are known.
        power: the exponent of a power; None if it is unknown.
    """
    if constant is not None:
        return Value(kind, sources, constant, None, *_interval_of(constant))
    low, high = _interval(kind, sources, power)
    degrees = _degrees(kind, sources, power)
    if kind in _SMALLER | _LARGER and math.inf not in (high, -low):
        degrees = {}
    is_sum = kind in _ADDS or kind == "sub" or (kind in _MOVES and any(s.is_sum for s in sources))
    return Value(kind, sources, None, power, low, high, degrees, is_sum)


def _interval_of(constant: np.ndarray) -> Interval:
    numbers = np.asarray(constant)
    if numbers.dtype.kind not in "biufV" or not numbers.size:
        return _ANY
    numbers = numbers.astype(np.float64)
    if np.isnan(numbers).any():
        return _ANY
    return float(numbers.min()), float(numbers.max())


def _interval(kind: str, sources: tuple[Value, ...], power: float | None) -> Interval:
    first = (sources[0].low, sources[0].high) if sources else _ANY
    if kind in _WITHIN:
        return _WITHIN[kind]
    if kind in _MOVES or kind in _AMONG:
        return first
    if kind in _JOINS:
        return min(one.low for one in sources), max(one.high for one in sources)
    if kind == "squareddifference":
        return 0.0, math.inf
    if kind in _SUMS:
        return (0.0 if first[0] >= 0 else -math.inf), (0.0 if first[1] <= 0 else math.inf)
    if kind == "neg":
        return -first[1], -first[0]
    if kind == "abs":
        return _magnitudes(first)
    if kind in _AS_LINEAR:
        return max(first[0], _AS_LINEAR[kind]), max(first[1], 0.0) + (kind == "softplus")
    if kind in ("exp", "exp2", "expm1"):
        base, less = (2.0 if kind == "exp2" else math.e), kind == "expm1"
        return _pow(base, first[0]) - less, _pow(base, first[1]) - less
    if kind in ("log", "log1p"):
        return _logarithms(first, kind == "log1p")
    if len(sources) > 1:
        return _interval_of_two(kind, sources, first, (sources[1].low, sources[1].high), power)
    if kind in _FIXED_POWERS or kind in _POWERS:
        return _powers(first, _FIXED_POWERS.get(kind, power))
    return _ANY


def _interval_of_two(
    kind: str, sources: tuple[Value, ...], one: Interval, other: Interval, power: float | None
) -> Interval:
    if kind in _ADDS:
        return one[0] + other[0], one[1] + other[1]
    if kind == "sub":
        if _is_maximum(sources[1]) or _is_log_of_sum(sources[1], sources[0]):
            return -math.inf, 0.0
        return one[0] - other[1], one[1] - other[0]
    if kind == "mul":
        if sources[0].same() is sources[1].same():
            return _powers(one, 2.0)
        return _corners(one, other)
    if kind in _DIVIDES:
        if _is_share(*sources[:2]):
            return 0.0, 1.0
        return _corners(one, _powers(other, -1.0))
    if kind in _SMALLER:
        return min(one[0], other[0]), min(one[1], other[1])
    if kind in _LARGER:
        return max(one[0], other[0]), max(one[1], other[1])
    if kind == "clamp":
        return one[0], sources[2].high
    if kind == "clipbyvalue":
        return other[0], sources[2].high
    if kind in _SELECTS:
        cases = _cases(kind, sources)
        return min(case.low for case in cases), max(case.high for case in cases)
    if kind in _POWERS:
        if power is not None:
            return _powers(one, power)
        if sources[0].constant is not None and one[0] > 0:
            ends = [_pow(base, end) for base in one for end in other]
            return min(ends), max(ends)
        return (0.0, 1.0) if one[0] >= 0 and one[1] <= 1 and other[0] >= 0 else _ANY
    return _ANY


def _magnitudes(interval: Interval) -> Interval:
    low, high = interval
    return max(low, -high, 0.0), max(-low, high)


def _corners(one: Interval, other: Interval) -> Interval:
    products = [0.0 if 0.0 in (a, b) else a * b for a in one for b in other]
    return min(products), max(products)


def _pow(base: float, power: float) -> float:
    try:
        return base**power
    except (OverflowError, ZeroDivisionError):
        return math.inf


def _powers(interval: Interval, power: float | None) -> Interval:
    """The range of a power, or of a power that is not an integer where it is a number."""
    low, high = interval
    if power is None:
        return _ANY
    if power % 1:
        low, high = max(low, 0.0), max(high, 0.0)
    if power % 2 == 0:
        low, high = _magnitudes(interval)
    if power < 0 and low <= 0 <= high:
        return (0.0 if low == 0 else -math.inf), math.inf
    ends = _pow(low, power), _pow(high, power)
    return min(ends), max(ends)


def _logarithms(interval: Interval, of_one_more: bool) -> Interval:
    low = interval[0] + of_one_more
    high = min(max(interval[1] + of_one_more, 0.0), FLOAT16.overflow_threshold)
    return (math.log(low) if low > 0 else -math.inf), (math.log(high) if high > 0 else 0.0)


def _cases(kind: str, sources: tuple[Value, ...]) -> list[Value]:
    """The cases of a selection, limited to the numbers that its condition leaves to them."""
    condition, *cases = sources
    if len(condition.sources) != 2 or len(cases) != 2:
        return cases
    compared, bound = condition.sources
    if kind != "select_n":
        cases.reverse()  # the case of a false condition first, as JAX has it
    if condition.kind == "ne" and compared is bound:
        return cases[:1]  # the other one is for NaN
    if condition.kind in _BELOW:
        cases.reverse()
    elif condition.kind not in _ABOVE:
        return cases
    below, above = cases
    if below.same() is compared.same():
        below = Value(low=below.low, high=min(below.high, bound.high))
    if above.same() is compared.same():
        above = Value(low=max(above.low, bound.low), high=above.high)
    return [below, above]


def _moved(value: Value) -> Value:
    """The value behind mere moves."""
    while value.kind in _MOVES and value.sources:
        value = value.sources[0]
    return value


def _is_maximum(value: Value) -> bool:
    """Whether a value is the maximum over an axis, or stands in for one that is infinite."""
    pending = [value]
    while pending:
        one = _moved(pending.pop())
        if one.kind in _MAXIMA_OVER_AXES:
            return True
        if one.kind in _SELECTS | _LARGER:
            pending += one.sources
    return False


def _is_log_of_sum(value: Value, exponent: Value) -> bool:
    """Whether a value is log(sum(exp(exponent))), as in a softmax's logarithm."""
    for kinds in (("log",), _SUMS, ("exp",)):
        value = _moved(value)
        if value.kind not in kinds:
            return False
        value = value.sources[0]
    return _moved(value) is _moved(exponent)


def _is_share(part: Value, whole: Value) -> bool:
    """Whether a quotient is a part of a sum over an axis, as in a softmax."""
    whole = _moved(whole)
    if whole.kind not in _SUMS:
        return False
    return _moved(whole.sources[0]) is _moved(part) and part.low >= 0


def _degrees(kind: str, sources: tuple[Value, ...], power: float | None) -> Mapping[Value, float]:
    """The powers of other values that an unbounded result grows with."""
    if kind in _MOVES or kind in _AS_LINEAR or kind in ("neg", "abs"):
        return sources[0].growth()
    if kind in _ADDS | _JOINS | _SMALLER | _LARGER | {"sub"}:
        return _highest(*sources)
    if kind in _SELECTS:
        return _highest(*sources[1:])
    if kind == "mul":
        return _product((sources[0], 1.0), (sources[1], 1.0))
    if kind in _DIVIDES:
        return _product((sources[0], 1.0), (sources[1], -1.0))
    if kind in _FIXED_POWERS:
        return _product((sources[0], _FIXED_POWERS[kind]))
    if kind == "squareddifference":
        return {base: 2 * degree for base, degree in _highest(*sources).items()}
    if kind in _POWERS and sources[0].constant is None:
        return _product((sources[0], math.inf if power is None else power))
    return {}


def _highest(*sources: Value) -> Mapping[Value, float]:
    found: dict[Value, float] = {}
    for source in sources:
        if source.constant is None:
            for base, degree in source.growth().items():
                found[base] = max(degree, found.get(base, degree))
    return found


def _product(*factors: tuple[Value, float]) -> Mapping[Value, float]:
    found: dict[Value, float] = {}
    for factor, power in factors:
        if factor.constant is not None:
            continue
        # A sum that is a divisor need not be 0 where its summands are.
        of_sum = power < 0 and factor.is_sum
        for base, degree in ({factor: 1.0} if of_sum else factor.growth()).items():
            found[base] = found.get(base, 0.0) + degree * power
    return found
