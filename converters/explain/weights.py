"""The reference's weights in FP32, found by their roundings in a file of 16 bits."""

import hashlib
from collections.abc import Iterable

import numpy as np

_FLOAT16 = np.dtype(np.float16)


class Weights:
    """Float32 constants by name and by their rounding to FP16 or BF16.

    Attributes:
        lost: number of values of rounded constants that were not found in the reference.
        found: number of values of rounded constants that were found.
    """

    def __init__(
        self,
        constants: Iterable[tuple[str, np.ndarray]] = (),
        half: np.dtype = _FLOAT16,
    ) -> None:
        """Takes names and arrays; names decide between arrays that differ but round to the same.

        Args:
            constants: names and arrays.
            half: the type that the file has them in.
        """
        self._by_name: dict[str, list[np.ndarray]] = {}
        self._by_rounding: dict[str, list[np.ndarray]] = {}
        self.lost = self.found = 0
        for name, array in constants:
            if array.dtype != np.float32:
                continue
            with np.errstate(over="ignore", under="ignore"):
                rounding = _digest(array.astype(half))
            self._by_name.setdefault(name, []).append(array)
            self._by_rounding.setdefault(rounding, []).append(array)

    def find(self, name: str, half: np.ndarray) -> np.ndarray:
        """A rounded constant as it was in float32; if that is unknown, its own values in float32.

        Args:
            name: the constant's name, with the type behind it if float32 nodes read it too.
            half: its values.
        """
        with np.errstate(over="ignore", under="ignore"):
            plain = name.removesuffix("_fp16").removesuffix("_bf16")
            for array in self._by_name.get(plain, []):
                if array.shape == half.shape and np.array_equal(array.astype(half.dtype), half):
                    return self._take(array)
        same = self._by_rounding.get(_digest(half), [])
        if same and all(np.array_equal(array, same[0]) for array in same[1:]):
            return self._take(same[0])
        wide = half.astype(np.float32)
        # A single number is rarely a weight, and often one that FP16 holds.
        if half.size > 1:
            self.lost += half.size
        return wide

    def _take(self, array: np.ndarray) -> np.ndarray:
        self.found += array.size
        return array

    def note(self) -> str | None:
        """A note on constants that were not found; None if all were."""
        if not self.lost:
            return None
        return (
            f"{self.lost:,} of {self.lost + self.found:,} constants of the file were not found in "
            "the reference: the FP32 run takes their rounded values, so errors do not include that "
            "rounding"
        )


def _digest(half: np.ndarray) -> str:
    return hashlib.sha256(
        repr(half.shape).encode() + np.ascontiguousarray(half).tobytes()
    ).hexdigest()
