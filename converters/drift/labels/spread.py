"""The spread of labels that are numbers: the scale that their errors are seen on."""

import math
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import Expansions, fold, total

# Up to this many columns may be different quantities, such as price, rooms and yield; more are
# taken for one, such as the hours of a forecast or the pixels of an image.
MOST_COLUMNS = 16


@dataclass(frozen=True)
class Spread:
    """Exact sums of labels by column.

    Attributes:
        count: number of labels in each column.
        sums: of the labels of each column.
        squares: of the squares of the labels of each column.
    """

    count: int = 0
    sums: Expansions = ()
    squares: Expansions = ()

    @classmethod
    def of(cls, labels: np.ndarray) -> "Spread":
        """The sums over labels of any shape, samples first."""
        values = np.asarray(labels, np.float64)
        if not values.size:
            return cls()
        each = math.prod(values.shape[1:])
        apart = values.ndim <= 2 and each <= MOST_COLUMNS
        with np.errstate(over="ignore", invalid="ignore"):
            columns = values.reshape(len(values), max(1, each))
            sums = [columns, columns * columns]
            if not apart:
                sums = [part.sum(axis=1, keepdims=True) for part in sums]
            plain, squares = (tuple(fold(column.tolist()) for column in part.T) for part in sums)
        count = len(values) if apart else values.size
        return cls(count, plain, squares)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the labels, from column to column on average; None if unknown.

        Columns are averaged as variances: their differences in level are no spread.
        """
        means, squares = (
            np.array([total(each) for each in part]) / max(1, self.count)
            for part in (self.sums, self.squares)
        )
        with np.errstate(invalid="ignore"):
            found = float(np.maximum(0.0, squares - means**2).mean()) if self.count else math.nan
        return math.sqrt(found) if math.isfinite(found) else None
