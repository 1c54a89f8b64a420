"""The spread of labels that are numbers: the scale that their errors are seen on."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tfmp.converters.drift import Expansion, Expansions, fold

# Up to this many columns may be different quantities, such as price, rooms and yield; more are
# taken for one, such as the hours of a forecast or the pixels of an image.
MOST_COLUMNS = 16

# So many places of a sample tell how much it varies.
_FEWEST_PLACES = 8

# Half a percent of this share of the labels' size is twice the error of rounding to FP16, 2**-11.
_ROUNDED = 0.2


@dataclass(frozen=True)
class Spread:
    """Exact sums of labels by column.

    Attributes:
        count: number of labels in each column.
        sums: of the labels of each column.
        squares: of the squares of the labels of each column.
        inner: number of labels of samples that are series or pictures.
        within: sum of squares about the mean of each of these samples, or of each of its channels
            if these are `MOST_COLUMNS` at most.
    """

    count: int = 0
    sums: Expansions = ()
    squares: Expansions = ()
    inner: int = 0
    within: Expansion = ()

    @classmethod
    def of(cls, labels: np.ndarray) -> "Spread":
        """The sums over labels of any shape, samples first."""
        values = np.asarray(labels, np.float64)
        if not values.size:
            return cls()
        each = math.prod(values.shape[1:])
        channels = values.shape[-1] if values.ndim > 2 and values.shape[-1] <= MOST_COLUMNS else 1
        apart = values.ndim <= 2 and each <= MOST_COLUMNS
        inner = 0 if apart or each // max(1, channels) < _FEWEST_PLACES else values.size
        with np.errstate(over="ignore", invalid="ignore"):
            places = values.reshape(len(values), -1, channels if inner else max(1, each))
            beside = places - places.mean(axis=1, keepdims=True)
            columns = values.reshape(len(values), max(1, each))
            sums = [columns, columns * columns]
            if not apart:
                sums = [part.sum(axis=1, keepdims=True) for part in sums]
            plain, squares = (tuple(fold(column.tolist()) for column in part.T) for part in sums)
            within = fold((beside * beside).sum(axis=(1, 2)).tolist()) if inner else ()
        count = len(values) if apart else values.size
        return cls(count, plain, squares, inner, within)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the labels, from column to column on average; None if unknown.

        Columns are averaged as variances: their differences in level are no spread.
        """
        if not self.count or not _finite((*self.sums, *self.squares)):
            return None
        variances = []
        for plain, squared in zip(map(_exact, self.sums), map(_exact, self.squares), strict=True):
            mean = plain / self.count
            variances.append(float(max(Fraction(), squared / self.count - mean * mean)))
        return math.sqrt(math.fsum(variances) / len(variances))

    @property
    def scale(self) -> float | None:
        """What errors are seen beside; None if it is unknown.

        That is the deviation. Of series and pictures, it is what they vary by within a sample if
        that is less, but no smaller than the rounding of FP16 is seen beside: a model that knows
        where a track begins is judged by how the track goes on.
        """
        deviation = self.deviation
        if deviation is None or self.inner != self.count:
            return deviation
        within, size = (
            math.sqrt(float(_exact(sums)) / self.count) for sums in (self.within, self.squares[0])
        )
        return min(deviation, max(within, _ROUNDED * size))


def _exact(sums: Expansion) -> Fraction:
    return sum(map(Fraction, sums), Fraction())


def _finite(sums: Iterable[Expansion]) -> bool:
    return all(math.isfinite(part) for each in sums for part in each)
