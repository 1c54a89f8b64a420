"""The spread of labels that are numbers: the scale that their errors are seen on."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tfmp.converters.drift import UNREADABLE, Expansion, fold, unreadable
from tfmp.shared.report_files import JsonObject

# Up to this many columns may be different quantities, such as price, rooms and yield; more are
# taken for one, such as the hours of a forecast or the pixels of an image.
MOST_COLUMNS = 16

# So many places of a sample tell how much it varies.
_FEWEST_PLACES = 8

# Half a percent of this share of the labels' size is twice the error of rounding to FP16, 2**-11.
_ROUNDED = 0.2


class Spread:
    """Exact sums and sums of squares of labels by column; empty without arguments."""

    def __init__(
        self,
        count: int = 0,
        columns: Sequence[tuple[Expansion, Expansion]] = (),
        within: Expansion | None = None,
    ) -> None:
        """Holds sums.

        Args:
            count: number of labels in each column.
            columns: for each column the sum of its labels, and that of their squares.
            within: sum of squares about the mean of each sample, or of each of its channels if
                these are `MOST_COLUMNS` at most; None if samples are no series or pictures.
        """
        self._count = count
        self._columns = tuple((tuple(one), tuple(two)) for one, two in columns)
        self._within = None if within is None else tuple(within)

    @classmethod
    def of(cls, labels: np.ndarray) -> "Spread":
        """The sums over labels of any shape, samples first."""
        values = np.asarray(labels, np.float64)
        columns = math.prod(values.shape[1:])
        within = _within(values)
        apart = values.ndim <= 2 and columns <= MOST_COLUMNS
        values = values.reshape(len(values), columns)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = values * values
            if not apart:  # within a sample NumPy adds them up, in the same order in any batch
                values, squares = (each.sum(axis=1, keepdims=True) for each in (values, squares))
        return cls(
            len(values) * (1 if apart else columns),
            [
                (fold(column.tolist()), fold(square.tolist()))
                for column, square in zip(values.T, squares.T, strict=True)
            ],
            within,
        )

    def merged(self, other: "Spread") -> "Spread":
        """The sums over both."""
        if not (self._count and other._count):
            return self if self._count else other
        if len(self._columns) != len(other._columns):
            return Spread(self._count + other._count)  # they are not of one kind
        return Spread(
            self._count + other._count,
            [
                (fold((*one[0], *two[0])), fold((*one[1], *two[1])))
                for one, two in zip(self._columns, other._columns, strict=True)
            ],
            fold((*self._within, *other._within))
            if self._within is not None and other._within is not None
            else None,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the labels, from column to column on average; NaN without any.

        Columns are averaged as variances: their differences in level are no spread.
        """
        variances = []
        for column in self._columns if self._count else ():
            if not all(math.isfinite(part) for expansion in column for part in expansion):
                return math.nan
            plain, squared = (sum(map(Fraction, expansion), Fraction()) for expansion in column)
            mean = plain / self._count
            variances.append(float(max(Fraction(), squared / self._count - mean * mean)))
        return math.sqrt(math.fsum(variances) / len(variances)) if variances else math.nan

    @property
    def scale(self) -> float:
        """What errors are seen beside; NaN without any.

        That is the deviation. Of series and pictures, it is what they vary by within a sample if
        that is less, but no smaller than the rounding of FP16 is seen beside: a model that knows
        where a track begins is judged by how the track goes on.
        """
        deviation = self.deviation
        if self._within is None or not math.isfinite(deviation):
            return deviation
        square = float(sum(map(Fraction, self._columns[0][1]), Fraction()))
        varied = float(sum(map(Fraction, self._within), Fraction()))
        size = math.sqrt(square / self._count)
        return min(deviation, max(math.sqrt(varied / self._count), _ROUNDED * size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spread) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Spread({self.to_json()})"

    def __hash__(self) -> int:
        return hash((self._count, self._columns, self._within))

    def to_json(self) -> JsonObject:
        """The sums as hexadecimal floats, which hold every bit and infinities, too."""
        document: JsonObject = {
            "count": self._count,
            "columns": [[[part.hex() for part in sums] for sums in pair] for pair in self._columns],
        }
        if self._within is not None:
            document["within"] = [part.hex() for part in self._within]
        return document

    @classmethod
    def from_json(cls, document: JsonObject) -> "Spread":
        """Reads what `to_json` gave.

        Raises:
            InputError: the document was cut or changed.
        """
        try:
            columns = [
                tuple(tuple(float.fromhex(part) for part in sums) for sums in pair)
                for pair in document["columns"]
            ]
            if any(len(pair) != 2 for pair in columns):
                raise ValueError
            within = document.get("within")  # reports of before it was kept have none
            if within is not None:
                within = tuple(float.fromhex(part) for part in within)
            return cls(int(document["count"]), columns, within)  # type: ignore[arg-type]
        except UNREADABLE as error:
            raise unreadable("the spread of labels") from error


def _within(labels: np.ndarray) -> Expansion | None:
    """The sum of squares about the mean of each sample; None if a sample has few places."""
    channels = labels.shape[-1] if labels.ndim > 2 and labels.shape[-1] <= MOST_COLUMNS else 1
    places = math.prod(labels.shape[1:]) // max(1, channels)
    if places < _FEWEST_PLACES or (labels.ndim <= 2 and places <= MOST_COLUMNS):
        return None
    values = labels.reshape(len(labels), places, channels)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = values - values.mean(axis=1, keepdims=True)
        return fold((apart * apart).sum(axis=(1, 2)).tolist())
