"""The range of a tensor's values, in a few numbers."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from tfmp.shared.backend import Tensor, current_backend


@dataclass(frozen=True)
class ValueRange:
    """The range of a tensor's values.

    Attributes:
        dtype: name of its dtype.
        smallest, largest: bounds of the finite values; 0 if no value is finite.
        infinite: number of infinite values.
        nan: number of NaN values.
        size: number of all values.
        first_bad_row: index along the first axis of the first non-finite value, or None.
    """

    dtype: str
    smallest: float
    largest: float
    infinite: int
    nan: int
    size: int
    first_bad_row: int | None

    @property
    def finite(self) -> bool:
        """Whether every value is finite."""
        return self.infinite == self.nan == 0

    @property
    def magnitude(self) -> float:
        """The largest absolute finite value."""
        return max(abs(self.smallest), abs(self.largest))

    def describe_bad(self) -> str:
        """The number of values that are not finite, in words."""
        parts = []
        if self.nan:
            parts.append(f"{self.nan} NaN")
        if self.infinite:
            parts.append(f"{self.infinite} infinite")
        return f"{' and '.join(parts)} of {self.size} values"

    def __str__(self) -> str:
        bad = "" if self.finite else f", {self.describe_bad()}"
        return f"{self.dtype} [{self.smallest:.4g}, {self.largest:.4g}]{bad}"


def is_float(value: Tensor | None) -> bool:
    """Whether an entry of a batch, tensor or array, holds floating-point numbers."""
    return value is not None and "float" in keras.backend.standardize_dtype(value.dtype)


def range_of(tensor: Tensor) -> ValueRange:
    """The range of the values that a concrete tensor stores."""
    array = ops.convert_to_numpy(current_backend().stored(tensor))
    wide = np.asarray(array, dtype=np.float64)
    finite = np.isfinite(wide)
    good = wide[finite]
    bad = np.argwhere(~finite)
    row = None
    if bad.size and wide.ndim:
        row = current_backend().stored_row(tensor, int(bad[0][0]))
    return ValueRange(
        dtype=array.dtype.name,
        smallest=float(good.min()) if good.size else 0.0,
        largest=float(good.max()) if good.size else 0.0,
        infinite=int(np.isinf(wide).sum()),
        nan=int(np.isnan(wide).sum()),
        size=wide.size,
        first_bad_row=row,
    )
