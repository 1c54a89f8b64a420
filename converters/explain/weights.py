"""The reference's weights in FP32, found by what is left of them in an FP16 file."""

import hashlib
from collections.abc import Iterable

import numpy as np


class Weights:
    """Float32 constants by name and by their rounding to FP16.

    Attributes:
        lost: values of FP16 constants that were looked for and not found.
        found: values of those that were.
    """

    def __init__(self, constants: Iterable[tuple[str, np.ndarray]] = ()) -> None:
        """Takes names and arrays; of arrays with the same rounding that differ, names decide."""
        self._by_name: dict[str, list[np.ndarray]] = {}
        self._by_rounding: dict[str, list[np.ndarray]] = {}
        self.lost = self.found = 0
        for name, array in constants:
            if array.dtype != np.float32:
                continue
            with np.errstate(over="ignore", under="ignore"):
                rounding = _digest(array.astype(np.float16))
            self._by_name.setdefault(name, []).append(array)
            self._by_rounding.setdefault(rounding, []).append(array)

    def find(self, name: str, half: np.ndarray) -> np.ndarray:
        """What an FP16 constant was in float32; itself, widened, if that is not known.

        Args:
            name: of the constant; with "_fp16" behind it where float32 nodes read it too.
            half: its values.
        """
        with np.errstate(over="ignore", under="ignore"):
            for array in self._by_name.get(name.removesuffix("_fp16"), []):
                if array.shape == half.shape and np.array_equal(array.astype(np.float16), half):
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
        """What a reader should know of constants that were not found; None if all were."""
        if not self.lost:
            return None
        return (
            f"{self.lost:,} of {self.lost + self.found:,} constants are not in the reference as "
            "they are in the file: for them the FP32 run has the rounded ones, so that errors do "
            "not count their rounding"
        )


def _digest(half: np.ndarray) -> str:
    return hashlib.sha256(
        repr(half.shape).encode() + np.ascontiguousarray(half).tobytes()
    ).hexdigest()
