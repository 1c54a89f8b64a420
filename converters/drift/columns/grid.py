"""Places of a grid that are spread evenly over it, chosen from its shape alone."""

import math
from functools import cache

import numpy as np

# Of a fixed point, until no digit changes.
_ITERATIONS = 60


@cache
def even(grid: tuple[int, ...], most: int, start: float = 0.0) -> np.ndarray:
    """Places of a grid, spread evenly over all of it and over each of its axes.

    Multiples of powers of the root of x**(d + 1) = x + 1, the golden ratio for one axis, are spread
    evenly over d axes however many they are (Roberts 2018, "The unreasonable effectiveness of
    quasirandom sequences").

    Args:
        grid: its shape.
        most: as many places, or a few less; all of them where there are no more.
        start: the first multiple; at 0 the first place is a corner.
    """
    if math.prod(grid) <= most:
        return np.arange(math.prod(grid))
    axes = [axis for axis, size in enumerate(grid) if size > 1]
    root = 1.0
    for _ in range(_ITERATIONS):
        root = (1 + root) ** (1 / (len(axes) + 1))
    index = np.zeros((len(grid), most), np.intp)
    for power, axis in enumerate(axes, start=1):
        index[axis] = (start + np.arange(most)) * root**-power % 1 * grid[axis]
    return np.unique(np.ravel_multi_index(tuple(index), grid))
