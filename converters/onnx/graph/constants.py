"""The effect of rounding to FP16 on a constant, found in few passes over its values."""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from tfmp.converters.shared.tensors import flat_pieces
from tfmp.shared.numerics import FLOAT16, RangeClass, range_counts


@dataclass(frozen=True)
class ConstantFacts:
    """The values of a float32 constant, as FP16 sees them.

    Attributes:
        size: number of values.
        peak: largest finite magnitude, 0 if there is none.
        nonzero: number of values that are not zero.
        vanished: number of values that become zero.
        subnormal: number of values that lose precision below FP16's smallest normal number.
        smallest: smallest magnitude that is not zero; 0 unless a value vanishes.
        lost: relative L2 error of the rounding where nearly all values are so small; otherwise the
            others outweigh it, and it is 0.
    """

    size: int
    peak: float
    nonzero: int
    vanished: int
    subnormal: int
    smallest: float
    lost: float

    @property
    def overflows(self) -> bool:
        """Whether a finite value becomes infinite."""
        return self.peak >= FLOAT16.overflow_threshold


def constant_facts(value: ir.Value) -> ConstantFacts:
    """The facts of an initializer; they are found once and kept with it."""
    assert value.const_value is not None
    kept = value.meta.get(_KEY)
    if kept is None or kept[0] is not value.const_value:
        kept = value.meta[_KEY] = (value.const_value, facts_of(value.const_value.numpy()))
    return kept[1]


_KEY = "tfmp.constant_facts"


def facts_of(array: np.ndarray) -> ConstantFacts:
    """The facts of an array; only values that FP16 cannot hold well are looked at twice."""
    peak, smallest = 0.0, math.inf
    nonzero = vanished = subnormal = 0
    for piece in flat_pieces(array):
        magnitude = np.abs(piece)
        highest = float(np.max(magnitude, initial=0.0))
        if not np.isfinite(highest):
            highest = float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))
        peak = max(peak, highest)
        nonzero += int(np.count_nonzero(magnitude))
        small = magnitude[(magnitude < FLOAT16.smallest_normal) & (magnitude > 0)]
        if not small.size:
            continue
        counts = range_counts(small)
        vanished += counts[RangeClass.VANISHES]
        subnormal += counts[RangeClass.SUBNORMAL]
        smallest = min(smallest, float(np.min(small)))
    return ConstantFacts(
        size=array.size,
        peak=peak,
        nonzero=nonzero,
        vanished=vanished,
        subnormal=subnormal,
        smallest=smallest if vanished else 0.0,
        lost=_lost(array) if vanished + subnormal > _NEARLY_ALL * nonzero else 0.0,
    )


_NEARLY_ALL = 0.95


def _lost(array: np.ndarray) -> float:
    error_sq = exact_sq = 0.0
    for piece in flat_pieces(array):
        exact = piece[np.isfinite(piece)].astype(np.float64)
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float16).astype(np.float64)
        error_sq += float(np.sum((rounded - exact) ** 2))
        exact_sq += float(np.sum(exact**2))
    return math.sqrt(error_sq / exact_sq) if exact_sq else 1.0
