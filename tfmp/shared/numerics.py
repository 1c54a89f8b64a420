"""The numbers of FP16 and BF16: limits, rounding and spacing."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format with IEEE 754 semantics.

    Attributes:
        name: NumPy or Keras dtype name.
        exponent_bits: width of the exponent field.
        fraction_bits: width of the stored fraction (without the implicit leading 1).
    """

    name: str
    exponent_bits: int
    fraction_bits: int

    @property
    def title(self) -> str:
        """Its name in sentences: FP16 or BF16."""
        return "BF16" if self.name == "bfloat16" else "FP16"

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest binade."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal binade."""
        return 1 - self.max_exponent

    @property
    def max(self) -> float:
        """Largest finite value."""
        return (2.0 - 2.0**-self.fraction_bits) * 2.0**self.max_exponent

    @property
    def smallest_normal(self) -> float:
        """Smallest positive value with full precision."""
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        """Smallest positive value; half of it and less rounds to zero."""
        return 2.0 ** (self.min_exponent - self.fraction_bits)

    @property
    def eps(self) -> float:
        """Spacing between 1 and the next larger value."""
        return 2.0**-self.fraction_bits

    @property
    def overflow_threshold(self) -> float:
        """Smallest magnitude that rounds (to nearest even) to infinity."""
        return (2.0 - 2.0 ** -(self.fraction_bits + 1)) * 2.0**self.max_exponent


# IEEE 754-2019, table 3.5 (binary16); bfloat16 is binary32 with 16 fraction bits cut off.
FLOAT16 = FloatFormat("float16", exponent_bits=5, fraction_bits=10)
BFLOAT16 = FloatFormat("bfloat16", exponent_bits=8, fraction_bits=7)


def round_to(values: np.ndarray, fmt: FloatFormat = FLOAT16) -> np.ndarray:
    """Rounds to the nearest value of `fmt`, ties to even; too large values become infinite.

    Args:
        values: any shape, float32 or float64 (other dtypes are converted to float64).
        fmt: target format.

    Returns:
        Same shape and dtype as `values`; every element is representable in `fmt`.
    """
    values = np.asarray(values)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    narrow = ml_dtypes.bfloat16 if fmt is BFLOAT16 else np.float16
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(narrow).astype(values.dtype)


def ulp(values: np.ndarray, fmt: FloatFormat = FLOAT16) -> np.ndarray:
    """Spacing of `fmt` at each value: 2**(exponent - fraction_bits), constant below normals.

    Args:
        values: any shape; NaN and infinities get the spacing of the largest binade.
        fmt: the format.

    Returns:
        float64, same shape as `values`.
    """
    magnitude = np.abs(np.asarray(values, dtype=np.float64))
    magnitude = np.where(np.isfinite(magnitude), magnitude, fmt.max)
    # x = m * 2**e with 0.5 <= m < 1, so the binade of x begins at 2**(e - 1).
    _, exponent = np.frexp(np.clip(magnitude, fmt.smallest_normal, fmt.max))
    return np.ldexp(1.0, exponent - 1 - fmt.fraction_bits)
