"""The numbers of FP16 and BF16: limits, rounding and spacing."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format with IEEE 754 semantics.

    Attributes:
        name: NumPy or Keras dtype name.
        title: its name in sentences.
        fraction_bits: width of the stored fraction (without the implicit leading 1).
        min_exponent, max_exponent: of the smallest normal binade, and of the largest one.
        max: largest finite value.
        smallest_normal: smallest positive value with full precision.
        smallest_subnormal: smallest positive value; half of it and less rounds to zero.
        eps: spacing between 1 and the next larger value.
        overflow_threshold: smallest magnitude that rounds (to nearest even) to infinity.
    """

    name: str
    title: str
    fraction_bits: int
    min_exponent: int
    max_exponent: int
    max: float
    smallest_normal: float
    smallest_subnormal: float
    eps: float
    overflow_threshold: float


def _format(name: str, title: str) -> FloatFormat:
    info = ml_dtypes.finfo(name)
    most, spacing = float(info.max), 2.0 ** (info.maxexp - 1) * float(info.eps)
    return FloatFormat(
        name=name,
        title=title,
        fraction_bits=int(info.nmant),
        min_exponent=int(info.minexp),
        max_exponent=int(info.maxexp) - 1,
        max=most,
        smallest_normal=float(info.smallest_normal),
        smallest_subnormal=float(info.smallest_subnormal),
        eps=float(info.eps),
        overflow_threshold=most + spacing / 2,
    )


FLOAT16, BFLOAT16 = _format("float16", "FP16"), _format("bfloat16", "BF16")


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
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(fmt.name).astype(values.dtype)


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
