"""The reference's weights in FP32, found by their roundings in a file of 16 bits."""

import hashlib
from collections.abc import Iterable

import numpy as np

_FLOAT16 = np.dtype(np.float16)


class Weights:
    """Float32 constants by their rounding to FP16 or BF16.

    Attributes:
        sizes: number of values of each rounded constant that was looked for, by whether it was
            found and its digest.
    """

    def __init__(
        self,
        constants: Iterable[np.ndarray] = (),
        half: np.dtype = _FLOAT16,
    ) -> None:
        """Takes the constants, and the type that the file has them in."""
        self._by_rounding: dict[str, list[np.ndarray]] = {}
        self.sizes: dict[tuple[bool, str], int] = {}
        for array in constants:
            if array.dtype != np.float32:
                continue
            with np.errstate(over="ignore", under="ignore"):
                rounding = _digest(array.astype(half))
            self._by_rounding.setdefault(rounding, []).append(array)

    def find(self, half: np.ndarray) -> np.ndarray:
        """A rounded constant as it was in float32; if that is unknown, its own values in float32.

        Of several that round to the same, which are single numbers mostly, none is known.
        """
        digest = _digest(half)
        same = self._by_rounding.get(digest, [])
        found = bool(same) and all(np.array_equal(array, same[0]) for array in same[1:])
        # A single number is rarely a weight, and often one that FP16 holds.
        if found or half.size > 1:
            self.sizes[found, digest] = half.size
        return same[0] if found else half.astype(np.float32)

    def note(self) -> str | None:
        """A note on constants that were not found; None if all were."""
        lost = sum(size for (found, _), size in self.sizes.items() if not found)
        if not lost:
            return None
        return (
            f"{lost:,} of {sum(self.sizes.values()):,} constants of the file were not found in "
            "the reference: the FP32 run takes their rounded values, so errors do not include that "
            "rounding"
        )


def _digest(half: np.ndarray) -> str:
    return hashlib.sha256(
        repr(half.shape).encode() + np.ascontiguousarray(half).tobytes()
    ).hexdigest()
