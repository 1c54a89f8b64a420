"""Distances by slice: each channel or column against its own size, however small it is.

A pooled distance is the distance of the largest numbers. A column of yields beside one of prices,
or one dead channel of 48, does not show in it.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from tfmp.converters.drift.distances import Along, measure_distances
from tfmp.converters.drift.exact import Bands, add_bands, banded, total_of_bands
from tfmp.converters.drift.sketch import UNREADABLE, packed, unpacked, unreadable
from tfmp.shared.report_files import JsonObject

# Neighbours share a slice on an axis with more places.
MOST_SLICES = 4096

# Sums of single samples that wait to be added up: 0.5 MB.
_MOST_WAITING = 2**16

_SUMS = ("error_sq", "reference_sq", "reference_sum")
_SUM, _EDGE = np.dtype("<i8"), np.dtype("<f8")


class Slices:
    """Squared errors, squares, sums and ranges by slice; they merge exactly."""

    def __init__(
        self,
        sums: Bands | None = None,
        edges: np.ndarray | None = None,
        waiting: tuple[Along, ...] = (),
    ) -> None:
        """Empty without arguments.

        Args:
            sums: of squared errors, of squares of the reference, and of the reference, of shape
                (3, slices), by band.
            edges: the smallest and the largest value of the reference, then of the candidate, of
                shape (4, slices); None without samples.
            waiting: of samples that `sums` and `edges` do not hold yet; they are added up when
                somebody looks, many samples at once.
        """
        self._summed, self._waiting = (sums or {}, edges), waiting
        self.uneven = False

    @classmethod
    def of(cls, reference: np.ndarray, candidate: np.ndarray, axis: int) -> "Slices":
        """Measures one batch.

        Args:
            reference: floating values, batch first.
            candidate: values of the same shape.
            axis: the axis of the slices.
        """
        if reference.ndim < 3:
            return cls.summed(_of_rows(reference, candidate)) if reference.size else cls()
        one, other = (np.moveaxis(values, axis, -1) for values in (reference, candidate))
        return cls.summed(measure_distances(one, other, columns=True).columns)

    @classmethod
    def of_parts(cls, reference: np.ndarray, candidate: np.ndarray, first: int) -> list["Slices"]:
        """Measures the first columns of one batch, and the others; both at once take less time.

        Args:
            reference: floating values of shape (samples, columns).
            candidate: values of the same shape.
            first: number of columns of the first part.
        """
        both, parts = _of_rows(reference, candidate), (slice(first), slice(first, None))
        return [cls.summed(Along(both.sums[:, :, part], both.edges[:, part])) for part in parts]

    @classmethod
    def summed(cls, along: Along | None) -> "Slices":
        """Adds up sums of samples; neighbours share a slice if there are too many."""
        if along is None or not along.sums.size:
            return cls()
        sums, edges = along.sums, along.edges
        slices = sums.shape[2]
        if slices > MOST_SLICES:
            first = np.arange(MOST_SLICES) * slices // MOST_SLICES
            sums = np.add.reduceat(sums, first, axis=2)
            lows = np.minimum.reduceat(edges[::2], first, axis=1)
            highs = np.maximum.reduceat(edges[1::2], first, axis=1)
            edges = np.stack([lows[0], highs[0], lows[1], highs[1]])
        return cls(waiting=(Along(sums, edges),))

    @property
    def count(self) -> int:
        """The number of slices; 0 if they were not measured."""
        edges = self._waiting[0].edges if self._waiting else self._summed[1]
        return 0 if edges is None else edges.shape[1]

    def _all(self) -> tuple[Bands, np.ndarray | None]:
        """The sums and edges of all samples."""
        if self._waiting:
            sums, edges = self._summed
            found = banded(np.concatenate([along.sums for along in self._waiting], axis=1))
            known = [along.edges for along in self._waiting] + ([] if edges is None else [edges])
            self._summed, self._waiting = (add_bands(sums, found), _widest(known)), ()
        return self._summed

    @property
    def error_sq(self) -> np.ndarray:
        """The sum of squared errors of each slice."""
        return self._total[0]

    @property
    def reference_sq(self) -> np.ndarray:
        """The sum of squares of each slice of the reference."""
        return self._total[1]

    @property
    def reference_sum(self) -> np.ndarray:
        """The sum of each slice of the reference."""
        return self._total[2]

    @property
    def _total(self) -> np.ndarray:
        return total_of_bands(self._all()[0], (3, self.count))

    @property
    def edges(self) -> np.ndarray:
        """Smallest and largest value of the reference, then of the candidate: (4, slices)."""
        edges = self._all()[1]
        return np.zeros((4, 0)) if edges is None else edges

    def merged(self, other: "Slices") -> "Slices":
        """The sums of both."""
        if self.uneven or other.uneven:
            return _uneven()
        if not (self.count and other.count):
            return self if self.count else other
        if self.count != other.count:
            return _uneven()
        if other._summed[1] is not None:
            sums = add_bands(self._all()[0], other._all()[0])
            return Slices(sums, _widest([self.edges, other.edges]))
        merged = Slices(*self._summed, (*self._waiting, *other._waiting))
        if sum(along.sums.size for along in merged._waiting) > _MOST_WAITING:
            merged._all()
        return merged

    def without(self, part: "Slices") -> "Slices":
        """The sums without those of some of the samples; the edges stay those of all."""
        if self.uneven or part.uneven or self.count != part.count:
            return self
        sums, edges = self._all()
        less = {band: -values for band, values in part._all()[0].items()}
        return Slices(add_bands(sums, less), edges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slices) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Slices({self.count}, {zlib.crc32(repr(self.to_json()).encode()):08x})"

    def __hash__(self) -> int:
        return hash(self.count)

    def to_json(self) -> JsonObject:
        """The sums as compressed bytes."""
        return {
            "slices": self.count,
            "uneven": self.uneven,
            **{
                name: {
                    str(band): packed(sums[row].astype(_SUM))
                    for band, sums in sorted(self._all()[0].items())
                    if sums[row].any()
                }
                for row, name in enumerate(_SUMS)
            },
            "edges": packed(self.edges.astype(_EDGE)),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "Slices":
        """Reads what `to_json` gave; raises `InputError`."""
        try:
            if document["uneven"]:
                return _uneven()
            count = int(document["slices"])
            if not 0 <= count <= MOST_SLICES:
                raise ValueError
            if count == 0:
                return cls()
            sums: Bands = {}
            for row, name in enumerate(_SUMS):
                for band, text in document[name].items():
                    here = sums.setdefault(int(band), np.zeros((3, count), np.int64))
                    here[row] = unpacked(text, _SUM, count)
            edges = unpacked(document["edges"], _EDGE, 4 * count).reshape(4, count)
        except (*UNREADABLE, AttributeError) as error_read:
            raise unreadable("a table of slices") from error_read
        return cls(sums, edges)


def _widest(edges: Sequence[np.ndarray]) -> np.ndarray:
    """The edges of all samples."""
    every = np.stack(edges)
    lows, highs = every[:, ::2].min(axis=0), every[:, 1::2].max(axis=0)
    return np.stack([lows, highs], axis=1).reshape(every.shape[1:])


def _uneven() -> Slices:
    """Slices of batches that had different numbers of them."""
    slices = Slices()
    slices.uneven = True
    return slices


def _of_rows(reference: np.ndarray, candidate: np.ndarray) -> Along:
    """Squares, values and ranges of rows, in which each slice has one value."""
    one, other = (
        np.asarray(values.reshape(len(values), -1), np.float64) for values in (reference, candidate)
    )
    sums, edges = np.empty((3, *one.shape)), np.empty((4, one.shape[1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        error = np.subtract(other, one, out=sums[0])
        if not np.isfinite(error).all():
            finite = np.isfinite(one) & np.isfinite(other)
            one, other = np.where(finite, one, 0.0), np.where(finite, other, 0.0)
            np.subtract(other, one, out=error)
        np.square(error, out=error)
        np.square(one, out=sums[1])
    sums[2] = one
    for at, values in enumerate((one, other)):
        np.minimum.reduce(values, axis=0, out=edges[2 * at])
        np.maximum.reduce(values, axis=0, out=edges[2 * at + 1])
    edges += 0.0  # no zero is negative
    return Along(sums, edges)
