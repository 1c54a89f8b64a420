"""The range of a tensor's values, in a few numbers."""

from dataclasses import dataclass

import numpy as np
from keras import ops

from tfmp.shared.backend import Tensor


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


def stored_values(tensor: Tensor) -> Tensor:
    """The values that a tensor stores: the non-zero ones if it is sparse, the rows' if ragged."""
    if hasattr(tensor, "flat_values"):  # tf.RaggedTensor
        return tensor.flat_values
    if hasattr(tensor, "indices"):  # tf.SparseTensor and tf.IndexedSlices; JAX's BCOO
        return tensor.values if hasattr(tensor, "values") else tensor.data
    return tensor


def range_of(tensor: Tensor) -> ValueRange:
    """The range of the values that a concrete tensor stores."""
    array = ops.convert_to_numpy(stored_values(tensor))
    wide = np.asarray(array, dtype=np.float64)
    finite = np.isfinite(wide)
    good = wide[finite]
    bad = np.argwhere(~finite)
    return ValueRange(
        dtype=array.dtype.name,
        smallest=float(good.min()) if good.size else 0.0,
        largest=float(good.max()) if good.size else 0.0,
        infinite=int(np.isinf(wide).sum()),
        nan=int(np.isnan(wide).sum()),
        size=wide.size,
        first_bad_row=_row_of(tensor, int(bad[0][0])) if bad.size and wide.ndim else None,
    )


def _row_of(tensor: Tensor, place: int) -> int:
    """The row of a tensor that a stored value, or a row of stored values, belongs to."""
    if hasattr(tensor, "value_rowids") and tensor.ragged_rank == 1:
        return int(tensor.value_rowids()[place])
    if not hasattr(tensor, "indices"):
        return place
    index = ops.convert_to_numpy(tensor.indices)[place]
    return int(index if np.ndim(index) == 0 else index[0])
