"""The effect of rounding to 16 bits on a constant, found in few passes over its values."""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.shared.tensors import flat_pieces
from tfmp.shared.numerics import FLOAT16, FloatFormat, round_to


@dataclass(frozen=True)
class ConstantFacts:
    """The values of a float32 constant, as FP16 or BF16 sees them.

    Attributes:
        size: number of values.
        peak: largest finite magnitude, 0 if there is none.
        nonzero: number of values that are not zero.
        vanished: number of values that become zero.
        subnormal: number of values that lose precision below the smallest normal number.
        smallest: smallest magnitude that is not zero; 0 unless a value vanishes.
        lost: relative L2 error of the rounding where nearly all values are so small; otherwise the
            others outweigh it, and it is 0.
        overflows: whether a finite value becomes infinite.
    """

    size: int
    peak: float
    nonzero: int
    vanished: int
    subnormal: int
    smallest: float
    lost: float
    overflows: bool


def constant_facts(value: ir.Value, low: FloatFormat = FLOAT16) -> ConstantFacts:
    """The facts of an initializer; they are found once and kept with it."""
    assert value.const_value is not None
    key = f"tfmp.constant_facts.{low.name}"
    kept = value.meta.get(key)
    if kept is None or kept[0] is not value.const_value:
        kept = value.meta[key] = (value.const_value, facts_of(value.const_value.numpy(), low))
    return kept[1]


# A Cast and the names around it take about so many bytes, which this many values save.
_LEAST_VALUES = 64


def stores_narrow(value: ir.Value, low: FloatFormat = FLOAT16) -> bool:
    """Whether a value is a constant that 16 bits hold, and that is large enough to save room."""
    if (
        value.const_value is None
        or value.is_graph_input()
        or value.const_value.size < _LEAST_VALUES
    ):
        return False
    facts = constant_facts(value, low)
    # A few numbers of large trained weights vanish beside others that outweigh them.
    lost = facts.vanished > 0 and _loses_a_slice(value.const_value.numpy(), low)
    return not facts.overflows and not lost


def _loses_a_slice(array: np.ndarray, low: FloatFormat) -> bool:
    """Whether rounding changes a row, a column, or another slice by more than a normal number."""
    exact, lost = np.abs(array), np.abs(array - round_to(array, low))
    axes = set(range(array.ndim))
    others = [tuple(axes - {axis}) for axis in axes]
    return any(np.any(lost.max(rest) > exact.max(rest) * 2.0**-8) for rest in others)


def facts_of(array: np.ndarray, low: FloatFormat = FLOAT16) -> ConstantFacts:
    """The facts of an array; only values that are not normal numbers are looked at twice."""
    peak, smallest = 0.0, math.inf
    nonzero = vanished = subnormal = 0
    for piece in flat_pieces(array):
        magnitude = np.abs(piece)
        highest = float(np.max(magnitude, initial=0.0))
        if not np.isfinite(highest):
            highest = float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))
        peak = max(peak, highest)
        below = magnitude[magnitude < low.smallest_normal]
        small = below[below > 0]
        nonzero += magnitude.size - below.size + small.size
        if not small.size:
            continue
        # Half the smallest subnormal is a tie, and ties to even go to zero.
        gone = int(np.count_nonzero(small <= low.smallest_subnormal / 2))
        vanished, subnormal = vanished + gone, subnormal + small.size - gone
        smallest = min(smallest, float(np.min(small)))
    return ConstantFacts(
        size=array.size,
        peak=peak,
        nonzero=nonzero,
        vanished=vanished,
        subnormal=subnormal,
        smallest=smallest if vanished else 0.0,
        lost=_lost(array, low) if vanished + subnormal > _NEARLY_ALL * nonzero else 0.0,
        overflows=peak >= low.overflow_threshold,
    )


_NEARLY_ALL = 0.95


def _lost(array: np.ndarray, low: FloatFormat) -> float:
    error_sq = exact_sq = 0.0
    for piece in flat_pieces(array):
        exact = piece[np.isfinite(piece)].astype(np.float64)
        error_sq += float(np.sum((round_to(exact, low) - exact) ** 2))
        exact_sq += float(np.sum(exact**2))
    return math.sqrt(error_sq / exact_sq) if exact_sq else 1.0
