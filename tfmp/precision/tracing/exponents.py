"""Arguments of exponentials: those that never are far above 0 fit in FP16, as in a softmax."""

from dataclasses import dataclass

import numpy as np

# The exponential of a larger number is infinite in FP16.
LARGEST_EXPONENT = 11.0

# Operations of TensorFlow and primitives of JAX, in lower case.
_MOVES = frozenset(
    "cast identity stopgradient reshape expanddims squeeze transpose broadcastto stridedslice name "
    "convert_element_type broadcast_in_dim stop_gradient copy slice rev pack concatv2 "
    "concatenate".split()
)
_REDUCES_TO_MAX = frozenset("max_over_axes reduce_max".split())
_FITS = frozenset("tanh sigmoid logistic erf sin cos sign logsoftmax log log1p".split())
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
        power: the exponent of an integer power.
    """

    kind: str = ""
    sources: "tuple[Value, ...]" = ()
    constant: np.ndarray | None = None
    power: float = 1.0


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
    if kind in ("clamp", "clipbyvalue"):
        return fits(sources[2])
    if kind in ("maximum", "max_of_two"):
        return all(map(fits, sources))
    if kind in ("select", "selectv2", "select_n"):
        first, *others = sources[1:]
        guarded = kind == "select_n" and _is_above(sources[0], first)
        return (guarded or fits(first)) and all(map(fits, others))
    return False


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
        squares = kind == "mul" and sources[0] is sources[1]
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
