"""Numbers of a row by how far they are below 1 or 100: risks of nearly nothing, hours of outage.

A chance of survival of 0.999 and one of 0.998 are nearly the same number. What they say is their
distance from 1.
"""

import numpy as np

from tfmp.converters.drift import Histogram, Slices, banded_by_slot

# Numbers that nothing of the kind is above, each with levels of its own for the numbers up to it
# and above the one before.
CEILINGS = (1.0, 100.0)

# Levels of the distance as a share of the ceiling, each of a factor of 4, the largest first; the
# first one holds all that is farther, negative numbers among it, and the last one all that is
# nearer.
CEILING_LEVELS = 8

# Columns of so few hold a quantity in each.
_MOST_COLUMNS = 16


def measure_ceilings(reference: np.ndarray, candidate: np.ndarray) -> tuple[Slices, Histogram]:
    """Sums by column, ceiling and level, and how many numbers each holds; nothing for more axes."""
    if reference.ndim != 2 or not 1 < reference.shape[1] <= _MOST_COLUMNS:
        return Slices(), ()
    rows, columns = reference.shape
    one, other = (np.asarray(values, np.float64).ravel() for values in (reference, candidate))
    low, high = CEILINGS
    size = np.abs(one)
    with np.errstate(invalid="ignore", over="ignore"):
        kept = (size <= high) & np.isfinite(other)
        ceiling = np.where(size <= low, low, high)
        below, gap = 1 - one / ceiling, (other - one) / ceiling
    _, exponent = np.frexp(below)
    level = np.where(below > 0, np.clip(-exponent // 2, 0, CEILING_LEVELS - 1), CEILING_LEVELS - 1)
    count = columns * len(CEILINGS) * CEILING_LEVELS
    slots = np.tile(np.arange(columns), rows) * len(CEILINGS) + (ceiling > low)
    slots = (slots * CEILING_LEVELS + level)[kept]
    with np.errstate(over="ignore", under="ignore"):
        sums = np.stack([gap * gap, below * below, below])[:, kept]
    edges = np.zeros((4, count))
    if not slots.size:
        return Slices({}, edges), (0,) * count
    counts = np.bincount(slots, minlength=count)
    return Slices(banded_by_slot(sums, slots, count), edges), tuple(counts.tolist())


def ceiling_ends() -> np.ndarray:
    """The distances at which levels end, as shares of the ceiling."""
    return 4.0 ** -np.arange(CEILING_LEVELS)
