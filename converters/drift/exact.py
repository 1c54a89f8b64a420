"""Numbers that merge exactly: any split of the data gives the same report, bit for bit.

Counts, maxima and flags do by themselves. A running float sum depends on the order of its terms.
Here a sum is kept as an expansion: floats whose exact total is the exact sum. `fold` brings any
list of floats to the one expansion that its total has, so equal totals are equal tuples, however
the terms were split and ordered.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import chain
from typing import Any, TypeVar

# The exact total as nearest float, nearest float of the rest, and so on: 0 is the empty tuple.
Expansion = tuple[float, ...]

# What all samples have in common; None before the first, "" once two differ.
Common = str | None

# What a sum becomes when a term is not finite or the total leaves float64: no finite claim is made.
_INFINITE: Expansion = (math.inf,)


def fold(terms: Iterable[float]) -> Expansion:
    """The canonical expansion of the exact sum of `terms`.

    `math.fsum` rounds an exact sum once (Shewchuk 1997, "Adaptive Precision Floating-Point
    Arithmetic"); subtracting this part and summing again gives the next part, until nothing is
    left. A non-finite term or a total beyond float64 gives `(inf,)`.
    """
    rest = [float(term) for term in terms]
    parts: list[float] = []
    try:
        while (part := math.fsum(rest)) != 0.0:
            if not math.isfinite(part):
                return _INFINITE
            parts.append(part)
            rest.append(-part)
    except (OverflowError, ValueError):  # fsum: a partial sum overflowed, or inf - inf
        return _INFINITE
    return tuple(parts)


def total(expansion: Expansion) -> float:
    """The exact sum, rounded once."""
    return expansion[0] if expansion else 0.0


def _in_common(one: Common, other: Common) -> Common:
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else ""


# How the values of a field merge, by the field's type.
_RULES: dict[object, Callable[[Sequence[Any]], object]] = {
    int: sum,
    float: max,
    bool: all,
    Expansion: lambda parts: fold(chain.from_iterable(parts)),
    Common: lambda parts: reduce(_in_common, parts),
}

Mergeable = TypeVar("Mergeable")


def merge(*parts: Mergeable) -> Mergeable:
    """Dataclasses merged field by field, so that the result holds for the samples of all.

    Integers are counts and add up, floats are maxima, and booleans hold for all samples.
    `Expansion` and `Common` merge as their comments say, dataclasses field by field,
    and anything else by its method `merged`.
    """
    kind = type(parts[0])
    merged = {
        item.name: _merge_values(item.type, [getattr(part, item.name) for part in parts])
        for item in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**merged)


def _merge_values(kind: object, parts: Sequence[Any]) -> object:
    if kind in _RULES:
        return _RULES[kind](parts)
    return merge(*parts) if is_dataclass(kind) else reduce(kind.merged, parts)  # type: ignore[attr-defined]
