"""The effect of rounding to FP16 on a constant, found in few passes over its values."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

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
    """

    size: int
    peak: float
    nonzero: int
    vanished: int
    subnormal: int
    smallest: float

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
    magnitude = np.abs(array)
    peak = float(np.max(magnitude, initial=0.0))
    if not np.isfinite(peak):
        peak = float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))
    small = magnitude[magnitude < FLOAT16.smallest_normal]
    if not small.size:
        return ConstantFacts(array.size, peak, array.size, 0, 0, 0.0)
    counts = range_counts(small)
    vanished = counts[RangeClass.VANISHES]
    return ConstantFacts(
        size=array.size,
        peak=peak,
        nonzero=array.size - counts[RangeClass.ZERO],
        vanished=vanished,
        subnormal=counts[RangeClass.SUBNORMAL],
        smallest=float(np.min(small[small > 0])) if vanished else 0.0,
    )
