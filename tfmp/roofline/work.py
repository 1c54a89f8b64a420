"""Work: the floating-point operations and the bytes of a program or a part of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Work:
    """The work of a program, or of a part of it.

    Attributes:
        products: FLOPs of matrix products and convolutions, by the dtype of their operands.
        other: FLOPs of everything else.
        bytes: bytes read from memory and written to it.
        passes: number of passes over memory; a GPU starts at least one kernel for each.
        uncounted: operations with an unknown number of FLOPs, and loops of unknown length.
    """

    products: Mapping[str, int] = field(default_factory=dict)
    other: int = 0
    bytes: int = 0
    passes: int = 0
    uncounted: tuple[str, ...] = ()

    @property
    def flops(self) -> int:
        """All FLOPs."""
        return sum(self.products.values()) + self.other

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: FLOPs for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __add__(self, other: "Work") -> "Work":
        return self._with(other, 1)

    def __sub__(self, other: "Work") -> "Work":
        return self._with(other, -1)

    def _with(self, other: "Work", sign: int) -> "Work":
        dtypes = dict.fromkeys([*self.products, *other.products])
        products = {
            dtype: max(0, self.products.get(dtype, 0) + sign * other.products.get(dtype, 0))
            for dtype in dtypes
        }
        return Work(
            {dtype: flops for dtype, flops in products.items() if flops},
            max(0, self.other + sign * other.other),
            max(0, self.bytes + sign * other.bytes),
            max(0, self.passes + sign * other.passes),
            tuple(dict.fromkeys((*self.uncounted, *other.uncounted))),
        )

    def times(self, trips: int) -> "Work":
        """The work of so many runs."""
        return Work(
            {dtype: trips * flops for dtype, flops in self.products.items()},
            trips * self.other,
            trips * self.bytes,
            trips * self.passes,
            self.uncounted,
        )
