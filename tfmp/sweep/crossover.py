"""Crossover points: the sizes from which on one way to compute is faster than another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfmp.machine import Timing, median_interval, ratios

FASTER, SLOWER, ALIKE = "faster", "slower", "alike"


@dataclass(frozen=True)
class Crossover:
    """One way to compute against another, over sizes.

    Attributes:
        variant: the way that is judged.
        base: the way that it is compared with.
        where: the mode, and the size that is fixed.
        axis: "batch" or "model size".
        sizes: the sizes at which both ran, the smallest first.
        found: for each size "faster", "slower" or, within noise, "alike".
    """

    variant: str
    base: str
    where: str
    axis: str
    sizes: tuple[int, ...]
    found: tuple[str, ...]

    @property
    def faster_from(self) -> int | None:
        """The smallest size from which on the variant is faster at all larger ones."""
        slow = [place for place, kind in enumerate(self.found) if kind != FASTER]
        first = slow[-1] + 1 if slow else 0
        return self.sizes[first] if first < len(self.sizes) else None

    def __str__(self) -> str:
        return f"{self.where}: {self.variant} {self._judgement()}"

    def _judgement(self) -> str:
        fast, slow = (self._at(kind) for kind in (FASTER, SLOWER))
        start = self.faster_from
        but = f", and slower at {slow}" if slow else ""
        if not fast and not slow:
            return f"is neither faster nor slower than {self.base} beyond noise"
        if not fast:
            return f"is slower than {self.base} at {slow}"
        if len(self.sizes) == 1 or start == self.sizes[0]:
            return f"is faster than {self.base} at {self._all()}"
        if start is not None and FASTER not in self.found[: self.sizes.index(start)]:
            return f"is faster than {self.base} from {self.axis} {start} on{but}"
        return f"is faster than {self.base} at {fast} only{but}"

    def _all(self) -> str:
        if len(self.sizes) == 1:
            return f"{self.axis} {self.sizes[0]}"
        return f"every {self.axis} from {self.sizes[0]} to {self.sizes[-1]}"

    def _at(self, kind: str) -> str:
        sizes = [size for size, each in zip(self.sizes, self.found, strict=True) if each == kind]
        if len(sizes) == len(self.sizes) > 1:
            return self._all()
        return f"{self.axis} {', '.join(map(str, sizes))}" if sizes else ""


def crossover(
    variant: str,
    base: str,
    where: str,
    axis: str,
    steps: Sequence[tuple[int, Timing, Timing]],
) -> Crossover:
    """Judges a variant at each size.

    Args:
        variant: the way that is judged.
        base: the way that it is compared with.
        where: the mode, and the size that is fixed.
        axis: "batch" or "model size".
        steps: each size, the smallest first, with the timings of the base and of the variant, which
            took turns.
    """
    found = tuple(_judged(base_step, step) for _, base_step, step in steps)
    return Crossover(variant, base, where, axis, tuple(size for size, *_ in steps), found)


def _judged(base: Timing, step: Timing) -> str:
    low, high = median_interval(ratios(base, step)) or (0.0, math.inf)
    return FASTER if low > 1 else SLOWER if high < 1 else ALIKE
