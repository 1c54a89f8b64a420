"""Values in a traced graph, and what their operations tell about them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tfmp.precision.tracing.intervals import power_of
from tfmp.shared.numerics import FLOAT16

# A logarithm of a number in FP16 is no larger.
LARGEST_LOGARITHM = math.log(FLOAT16.overflow_threshold)

# Operations of TensorFlow and primitives of JAX, in lower case. A conversion of integers to
# floating-point numbers has a kind of its own.
FROM_INTEGERS = "cast_of_integers"
SAME = frozenset(
    "cast identity stopgradient name convert_element_type stop_gradient copy".split()
) | {FROM_INTEGERS}
REARRANGES = SAME | frozenset(
    "reshape expanddims squeeze transpose broadcastto broadcast_in_dim rev".split()
)
MOVES = REARRANGES | frozenset(
    "stridedslice slice split splitv unpack gather gatherv2 dynamic_slice".split()
)
JOINS = frozenset("pack concatv2 concatenate".split())
SUMS = frozenset("sum reduce_sum".split())
MAXIMA_OVER_AXES = frozenset("max_over_axes reduce_max".split())
ADDS = frozenset("add addv2 add_any".split())
DIVIDES = frozenset("realdiv div divnonan".split())
SMALLER = frozenset("minimum min_of_two".split())
LARGER = frozenset("maximum max_of_two".split())
SELECTS = frozenset("select selectv2 select_n".split())
ABOVE = frozenset("gt ge greater greaterequal".split())
BELOW = frozenset("lt le less lessequal".split())
EQUALS = frozenset("eq equal".split())
COMPARES = ABOVE | BELOW | EQUALS | {"ne", "notequal"}
POWERS = frozenset("pow integer_pow".split())
FIXED_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
CONTRACTIONS = frozenset("matmul batchmatmulv2 batchmatmulv3 einsum dot_general".split())
WEIGHTS = frozenset("weight readvariableop".split())
RANGES = frozenset("range iota".split())
SIZES = frozenset("shape dim_as_value".split())

# So many operations are looked through between a divisor and the number that it is larger than.
_DEEPEST = 12


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
        terms: the number of values in each of its sums, if it is a reduction or contraction.
        total: the largest sum of its magnitudes over an axis; that of a softmax is 1.
        is_fixed: whether it is made of constants and sizes alone.
        layer: id of the layer whose code made it, if it is known.
        dtype: its dtype, if it is known.
    """

    kind: str = ""
    sources: "tuple[Value, ...]" = ()
    constant: np.ndarray | None = None
    power: float | None = None
    low: float = -math.inf
    high: float = math.inf
    degrees: "Mapping[Value, float]" = field(default_factory=dict)
    is_sum: bool = False
    terms: float = math.inf
    total: float = math.inf
    is_fixed: bool = False
    layer: int | None = None
    dtype: str = ""

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
        return self._behind(SAME)

    def rearranged(self) -> "Value":
        """The value behind others that have the same numbers, in another order or shape."""
        return self._behind(REARRANGES)

    def moved(self) -> "Value":
        """The value behind mere moves, which may have left some of its numbers out."""
        return self._behind(MOVES)

    def _behind(self, kinds: frozenset[str]) -> "Value":
        value = self
        while value.kind in kinds and value.sources:
            value = value.sources[0]
        return value

    def is_weight(self) -> bool:
        """Whether it is a variable of the model, whose size training keeps in bounds."""
        return self.moved().kind in WEIGHTS


def is_maximum(value: Value) -> bool:
    """Whether a value is the maximum over an axis, or stands in for one that is infinite."""
    pending = [value]
    while pending:
        one = pending.pop().moved()
        if one.kind in MAXIMA_OVER_AXES:
            return True
        if one.kind in SELECTS | LARGER:
            pending += one.sources
    return False


def is_log_of_sum(value: Value, exponent: Value) -> bool:
    """Whether a value is log(sum(exp(exponent))), as in a softmax's logarithm."""
    for kinds in (("log",), SUMS, ("exp",)):
        value = value.rearranged()
        if value.kind not in kinds:
            return False
        value = value.sources[0]
    return value.rearranged() is exponent.rearranged()


def is_share(part: Value, whole: Value) -> bool:
    """Whether a quotient is a part of a sum over an axis, as in a softmax."""
    whole = whole.rearranged()
    return (
        whole.kind in SUMS and whole.sources[0].rearranged() is part.rearranged() and part.low >= 0
    )


def divisors(kind: str, sources: tuple[Value, ...]) -> Iterator[tuple[Value, Value, float]]:
    """The dividends of a quotient with their divisors, and the powers that these are taken to."""
    if kind in DIVIDES:
        yield sources[0], sources[1], 1.0
    if kind == "mul":
        for part, inverse in (sources[:2], sources[1::-1]):
            inverse = inverse.rearranged()
            if inverse.kind in ("rsqrt", "reciprocal"):
                yield part, inverse.sources[0], -FIXED_POWERS[inverse.kind]
            elif inverse.kind in DIVIDES and inverse.sources[0].low == inverse.sources[0].high == 1:
                yield part, inverse.sources[1], 1.0


def ratio(part: Value, whole: Value, power: float = 1.0) -> float:
    """The largest that |part|**power / whole can be; infinity if it is unknown.

    It is 1 for `1 + abs(part)`, and for sums of squares that the square of the part is among.
    """
    part = part.rearranged()
    while part.kind == "abs":
        part = part.sources[0].rearranged()
    return _ratio(part, whole, power, False, _DEEPEST)


def _ratio(part: Value, whole: Value, power: float, of_size: bool, depth: int) -> float:
    """As `ratio`; with `of_size` for the magnitude of the whole."""
    whole = whole.rearranged()
    if not depth:
        return math.inf

    def of(one: Value, power: float = power, of_size: bool = of_size) -> float:
        return _ratio(part, one, power, of_size, depth - 1)

    if whole is part or _are_alike(whole, part):
        return 1.0 if power == 1 and (of_size or whole.low >= 0) else math.inf
    if not whole.sources:
        return math.inf
    first, *others = whole.sources
    if whole.kind == "abs":
        return of(first, of_size=True)
    if whole.kind in ADDS:
        one, other = first, others[0]
        ratios = [of(one)] if other.low >= 0 and (one.low >= 0 or not of_size) else []
        if one.low >= 0 and (other.low >= 0 or not of_size):
            ratios.append(of(other))
        return min(ratios, default=math.inf)
    if whole.kind in LARGER and (not of_size or whole.low >= 0):
        return min(of(one) for one in whole.sources)
    if whole.kind == "euclideannorm":
        return of(first, of_size=True)
    if whole.kind in SUMS | MAXIMA_OVER_AXES | {"mean"} and first.low >= 0:
        return of(first) * (whole.terms if whole.kind == "mean" else 1.0)
    exponent = _exponent(whole)
    if exponent is not None:
        is_even = exponent % 2 == 0
        base = of(first, power / exponent, of_size=of_size or is_even)
        return power_of(base, exponent) if base < math.inf else math.inf
    if whole.kind == "mul":
        for factor, one in ((first, others[0]), (others[0], first)):
            if factor.constant is not None and factor.low > 0:
                return of(one) / factor.low
    if whole.kind in DIVIDES and others[0].constant is not None and others[0].low > 0:
        return of(first) * others[0].high
    return math.inf


def _are_alike(one: Value, other: Value) -> bool:
    """Whether two values are results of the same operation on the same values."""
    if (one.kind, one.power) != (other.kind, other.power) or not one.sources:
        return False
    return len(one.sources) == len(other.sources) and all(
        a.rearranged() is b.rearranged() or _same_constant(a.constant, b.constant)
        for a, b in zip(one.sources, other.sources, strict=True)
    )


def _same_constant(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)


def _exponent(value: Value) -> float | None:
    """The exponent of a positive power; None for other operations."""
    if value.kind == "mul" and value.sources[0].same() is value.sources[1].same():
        return 2.0
    exponent = value.power if value.kind in POWERS else FIXED_POWERS.get(value.kind)
    return exponent if exponent and exponent > 0 else None
