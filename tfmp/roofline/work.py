"""Work: the floating-point operations and the bytes of a program or a part of it."""

from collections import Counter
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
        return Work(
            dict(Counter(self.products) + Counter(other.products)),
            self.other + other.other,
            self.bytes + other.bytes,
            self.passes + other.passes,
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


def count_text(count: float) -> str:
    """A number of FLOPs as people read it: 1.5 G."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"
