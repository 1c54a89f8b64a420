"""The range that a value in a traced graph can have, and how fast it grows with others."""

import math
from collections.abc import Mapping

import numpy as np

from tfmp.precision.tracing import intervals
from tfmp.precision.tracing.intervals import ANY, Interval
from tfmp.precision.tracing.values import (
    ABOVE,
    ADDS,
    BELOW,
    COMPARES,
    CONTRACTIONS,
    DIVIDES,
    EQUALS,
    FIXED_POWERS,
    JOINS,
    LARGER,
    MAXIMA_OVER_AXES,
    MOVES,
    POWERS,
    RANGES,
    SELECTS,
    SIZES,
    SMALLER,
    SUMS,
    Value,
    divisors,
    is_log_of_sum,
    is_maximum,
    is_share,
    ratio,
)

_AMONG = MAXIMA_OVER_AXES | frozenset("mean min_over_axes reduce_min".split())
_WITHIN = {
    **dict.fromkeys("tanh erf sin cos sign softsign".split(), (-1.0, 1.0)),
    **dict.fromkeys("sigmoid logistic softmax onehot".split(), (0.0, 1.0)),
    **dict.fromkeys(COMPARES, (0.0, 1.0)),
    "logsoftmax": (-math.inf, 0.0),
    "relu6": (0.0, 6.0),
    **dict.fromkeys(SIZES, (1.0, math.inf)),
}
# They grow as their operand does, and are no smaller than these numbers.
_AS_LINEAR = {"relu": 0.0, "softplus": 0.0, "elu": -1.0, "selu": -1.76, "leakyrelu": -math.inf}


def value_of(
    kind: str,
    sources: tuple[Value, ...] = (),
    constant: np.ndarray | None = None,
    power: float | None = None,
    terms: float = math.inf,
    layer: int | None = None,
    dtype: str = "",
) -> Value:
    """The value that an operation makes.

    Args:
        kind: the operation, in lower case.
        sources: its operands.
        constant: the numbers of the result, if they are known.
        power: the exponent of a power; None if it is unknown.
        terms: the number of values in each sum of a reduction or contraction; infinity if it is
            unknown.
        layer: id of the layer whose code has the operation.
        dtype: of the result.
    """
    if constant is not None:
        low, high = intervals.of_array(constant)
        total = 0.0 if low == high == 0 else math.inf
        return Value(
            kind, sources, constant, None, low, high, total=total, is_fixed=True, dtype=dtype
        )
    low, high = _interval(kind, sources, power, terms)
    degrees = _degrees(kind, sources, power)
    if kind in SMALLER | LARGER and math.inf not in (high, -low):
        degrees = {}
    return Value(
        kind,
        sources,
        power=power,
        low=low,
        high=high,
        degrees=degrees,
        is_sum=kind in ADDS or kind == "sub" or (kind in MOVES and any(s.is_sum for s in sources)),
        terms=terms,
        total=_total(kind, sources),
        is_fixed=kind in SIZES | RANGES or (bool(sources) and all(s.is_fixed for s in sources)),
        layer=layer,
        dtype=dtype,
    )


def power_of_all(exponents: np.ndarray | None) -> float | None:
    """The exponent of a power if it is the same for all numbers; None otherwise."""
    if exponents is None or not np.size(exponents) or np.min(exponents) < np.max(exponents):
        return None
    return float(np.max(exponents))


def _interval(kind: str, sources: tuple[Value, ...], power: float | None, terms: float) -> Interval:
    first = (sources[0].low, sources[0].high) if sources else ANY
    if kind in _WITHIN:
        return _WITHIN[kind]
    if kind in MOVES or kind in _AMONG:
        return first
    if kind in JOINS or (kind in RANGES and sources):
        return min(one.low for one in sources), max(one.high for one in sources)
    if kind in RANGES:
        return 0.0, math.inf
    if kind == "squareddifference":
        return 0.0, math.inf
    if kind in SUMS or (kind in CONTRACTIONS and len(sources) == 1):
        return intervals.within(intervals.sum_of(first, terms), sources[0].total)
    if kind == "neg":
        return -first[1], -first[0]
    if kind == "abs":
        return intervals.magnitudes(first)
    if kind in _AS_LINEAR:
        return max(first[0], _AS_LINEAR[kind]), max(first[1], 0.0) + (kind == "softplus")
    if kind in ("exp", "exp2", "expm1"):
        base, less = (2.0 if kind == "exp2" else math.e), kind == "expm1"
        low, high = (intervals.power_of(base, end) - less for end in first)
        return low, high
    if kind in ("log", "log1p"):
        return intervals.logarithms(first, kind == "log1p")
    if len(sources) > 1:
        second = (sources[1].low, sources[1].high)
        return _interval_of_two(kind, sources, first, second, power, terms)
    if kind in FIXED_POWERS or kind in POWERS:
        return intervals.powers(first, FIXED_POWERS.get(kind, power))
    return ANY


def _interval_of_two(
    kind: str,
    sources: tuple[Value, ...],
    one: Interval,
    other: Interval,
    power: float | None,
    terms: float,
) -> Interval:
    if kind in ADDS:
        return one[0] + other[0], one[1] + other[1]
    if kind == "sub":
        if is_maximum(sources[1]) or is_log_of_sum(sources[1], sources[0]):
            return -math.inf, 0.0
        return one[0] - other[1], one[1] - other[0]
    if kind == "mul":
        if sources[0].same() is sources[1].same():
            return intervals.powers(one, 2.0)
        return intervals.within(intervals.product(one, other), _largest_ratio(kind, sources))
    if kind in DIVIDES:
        quotient = intervals.product(one, intervals.powers(other, -1.0))
        if is_share(*sources[:2]):
            return 0.0, 1.0
        return intervals.within(quotient, _largest_ratio(kind, sources))
    if kind in CONTRACTIONS:
        summed = intervals.sum_of(intervals.product(one, other), terms)
        totals = (_scaled(a.total, b.bound) for a, b in (sources[:2], sources[1::-1]))
        return intervals.within(summed, min(totals))
    if kind in SMALLER:
        return min(one[0], other[0]), min(one[1], other[1])
    if kind in LARGER:
        return max(one[0], other[0]), max(one[1], other[1])
    if kind == "clamp":
        return one[0], sources[2].high
    if kind == "clipbyvalue":
        return other[0], sources[2].high
    if kind in SELECTS:
        cases = _cases(kind, sources)
        return min(case.low for case in cases), max(case.high for case in cases)
    if kind in POWERS:
        if power is not None:
            return intervals.powers(one, power)
        if sources[0].constant is not None and one[0] > 0:
            ends = [intervals.power_of(base, end) for base in one for end in other]
            return min(ends), max(ends)
        return (0.0, 1.0) if one[0] >= 0 and one[1] <= 1 and other[0] >= 0 else ANY
    return ANY


def _largest_ratio(kind: str, sources: tuple[Value, ...]) -> float:
    """The largest magnitude of a quotient whose divisor grows with its dividend."""
    ratios = (
        intervals.power_of(ratio(part, whole, 1 / power), power)
        for part, whole, power in divisors(kind, sources)
    )
    return min(ratios, default=math.inf)


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
    if condition.kind in BELOW:
        cases.reverse()
    elif condition.kind not in ABOVE:
        return cases
    below, above = cases
    if below.same() is compared.same():
        below = Value(low=below.low, high=min(below.high, bound.high))
    if above.same() is compared.same():
        above = Value(low=max(above.low, bound.low), high=above.high)
    return [below, above]


def _total(kind: str, sources: tuple[Value, ...]) -> float:
    """The largest sum of magnitudes over an axis, if there is an axis where one is known."""
    if kind in ("softmax", "onehot"):
        return 1.0
    if kind in EQUALS:  # one-hot numbers are made by comparing with 0, 1, 2 and so on
        return 1.0 if any(_are_different(one.moved()) for one in sources) else math.inf
    if kind in MOVES or kind in ("neg", "abs", "relu"):
        return sources[0].total
    if kind in ADDS | JOINS | {"sub"}:
        return sum(one.total for one in sources)
    if kind in SELECTS:
        return sum(one.total for one in sources[1:])
    if kind == "mul":
        one, other = sources
        return min(_scaled(one.total, other.bound), _scaled(other.total, one.bound))
    if kind in DIVIDES:
        part, whole = sources
        if is_share(part, whole):
            return 1.0
        known = whole.constant is not None and whole.low > 0
        return part.total / whole.low if known else math.inf
    return math.inf


def _scaled(total: float, factor: float) -> float:
    return total * factor if total and factor else 0.0


def _are_different(value: Value) -> bool:
    numbers = value.constant
    return value.kind in RANGES or (
        numbers is not None and 1 < numbers.size == np.unique(numbers).size
    )


def _degrees(kind: str, sources: tuple[Value, ...], power: float | None) -> Mapping[Value, float]:
    """The powers of other values that an unbounded result grows with."""
    if kind in MOVES or kind in _AS_LINEAR or kind in ("neg", "abs"):
        return sources[0].growth()
    if kind in ADDS | JOINS | SMALLER | LARGER | {"sub"}:
        return _highest(*sources)
    if kind in SELECTS:
        return _highest(*sources[1:])
    if kind in CONTRACTIONS and any(one.is_weight() for one in sources):
        return {}  # a layer's own, whose weights keep its results in bounds
    if kind == "mul" or (kind in CONTRACTIONS and len(sources) == 2):
        return _product((sources[0], 1.0), (sources[1], 1.0))
    if kind in DIVIDES:
        return _product((sources[0], 1.0), (sources[1], -1.0))
    if kind in FIXED_POWERS:
        return _product((sources[0], FIXED_POWERS[kind]))
    if kind == "squareddifference":
        return {base: 2 * degree for base, degree in _highest(*sources).items()}
    if kind in POWERS and sources[0].constant is None:
        if power is None:
            power = sources[1].high if sources[1].is_fixed else math.inf
        return _product((sources[0], power))
    return {}


def _highest(*sources: Value) -> Mapping[Value, float]:
    found: dict[Value, float] = {}
    for source in sources:
        if not source.is_fixed:
            for base, degree in source.growth().items():
                found[base] = max(degree, found.get(base, degree))
    return found


def _product(*factors: tuple[Value, float]) -> Mapping[Value, float]:
    found: dict[Value, float] = {}
    for factor, power in factors:
        if factor.is_fixed:
            continue
        # A sum that is a divisor need not be 0 where its summands are.
        of_sum = power < 0 and factor.is_sum
        for base, degree in ({factor: 1.0} if of_sum else factor.growth()).items():
            found[base] = found.get(base, 0.0) + degree * power
    return found
