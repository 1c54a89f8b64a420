"""Distances by slice: each channel or column against its own size, however small it is.

A pooled distance is the distance of the largest numbers. A column of yields beside one of prices,
or one dead channel of 48, does not show in it.
"""

import zlib
from collections.abc import Mapping

import numpy as np

from tfmp.converters.drift.distances import CHUNK, pieces, scratch
from tfmp.converters.drift.sketch import UNREADABLE, packed, unpacked, unreadable
from tfmp.shared.report_files import JsonObject

# Neighbours share a slice on an axis with more places.
MOST_SLICES = 4096

# A sum over samples is kept as whole multiples of a power of two, one for each band of exponents:
# so it is exact, whatever the order. The bands are 2**8 wide and keep 30 bits below: 2**24 samples
# have room in 64 bits.
_BAND, _BITS = 8, 30

_SUMS = ("error_sq", "reference_sq", "reference_sum")
_SUM, _EDGE = np.dtype("<i8"), np.dtype("<f8")

Bands = dict[int, np.ndarray]


class Slices:
    """Squared errors, squares, sums and ranges by slice; they merge exactly."""

    def __init__(
        self,
        error: Bands | None = None,
        reference: Bands | None = None,
        mean: Bands | None = None,
        edges: np.ndarray | None = None,
    ) -> None:
        """Empty without arguments.

        Args:
            error: sums of squared errors, by band.
            reference: sums of squares of the reference, by band.
            mean: sums of the reference, by band.
            edges: the smallest and the largest value of the reference, then of the candidate, of
                shape (4, slices); None without samples.
        """
        self._error, self._reference, self._mean = error or {}, reference or {}, mean or {}
        self._edges = edges
        self.uneven = False

    @classmethod
    def of(cls, reference: np.ndarray, candidate: np.ndarray, axis: int) -> "Slices":
        """Measures one batch.

        Args:
            reference: floating values, batch first.
            candidate: values of the same shape.
            axis: the axis of the slices.
        """
        if reference.size == 0:
            return cls()
        if axis == 1 and reference.ndim > 2:
            return cls._of_places(
                *(values.reshape(*values.shape[:2], -1) for values in (reference, candidate))
            )
        one, other = (_slices_last(values, axis) for values in (reference, candidate))
        edges = np.stack([*_edges(one), *_edges(other)])
        if not np.isfinite(edges).all():  # some value is not
            finite = np.isfinite(one) & np.isfinite(other)
            one, other = np.where(finite, one, 0), np.where(finite, other, 0)
            edges = np.stack([*_edges(one), *_edges(other)])
        samples, values, slices = one.shape
        sums = np.zeros((3, samples, slices))
        for block, piece in pieces(samples, values, max(1, CHUNK // slices)):
            # A sample's pieces are cut at the same places whatever batch it came in.
            sums[:, block] += _sums_of(one[block, piece], other[block, piece], "spc,spc->sc")
        return cls._summed(sums, edges)

    @classmethod
    def _of_places(cls, one: np.ndarray, other: np.ndarray) -> "Slices":
        """Measures slices whose values lie behind one another: (samples, slices, values)."""
        edges = _places_edges(one, other)
        if not np.isfinite(edges).all():
            finite = np.isfinite(one) & np.isfinite(other)
            one, other = np.where(finite, one, 0), np.where(finite, other, 0)
            edges = _places_edges(one, other)
        samples, slices, values = one.shape
        sums = np.zeros((3, samples, slices))
        rows = sums.reshape(3, -1)
        one, other = (array.reshape(samples * slices, values) for array in (one, other))
        for block, piece in pieces(samples * slices, values, CHUNK):
            rows[:, block] += _sums_of(one[block, piece], other[block, piece], "rv,rv->r")
        return cls._summed(sums, edges)

    @classmethod
    def _summed(cls, sums: np.ndarray, edges: np.ndarray) -> "Slices":
        """Sums by sample, added up; neighbours share a slice if there are too many."""
        slices = sums.shape[2]
        if slices > MOST_SLICES:
            first = np.arange(MOST_SLICES) * slices // MOST_SLICES
            sums = np.add.reduceat(sums, first, axis=2)
            lows = np.minimum.reduceat(edges[::2], first, axis=1)
            highs = np.maximum.reduceat(edges[1::2], first, axis=1)
            edges = np.stack([lows[0], highs[0], lows[1], highs[1]])
        error, square, total = map(_banded, sums)
        return cls(error, square, total, edges)

    @property
    def count(self) -> int:
        """The number of slices; 0 if they were not measured."""
        return 0 if self._edges is None or self.uneven else self._edges.shape[1]

    @property
    def error_sq(self) -> np.ndarray:
        """The sum of squared errors of each slice."""
        return _total(self._error, self.count)

    @property
    def reference_sq(self) -> np.ndarray:
        """The sum of squares of each slice of the reference."""
        return _total(self._reference, self.count)

    @property
    def reference_sum(self) -> np.ndarray:
        """The sum of each slice of the reference."""
        return _total(self._mean, self.count)

    @property
    def edges(self) -> np.ndarray:
        """Smallest and largest value of the reference, then of the candidate: (4, slices)."""
        return np.zeros((4, 0)) if self._edges is None else self._edges

    def merged(self, other: "Slices") -> "Slices":
        """The sums of both."""
        if self.uneven or other.uneven:
            return _uneven()
        if self._edges is None or other._edges is None:
            return other if self._edges is None else self
        if self._edges.shape != other._edges.shape:
            return _uneven()
        edges = np.where(
            [[True], [False], [True], [False]],
            np.minimum(self._edges, other._edges),
            np.maximum(self._edges, other._edges),
        )
        return Slices(
            _added(self._error, other._error),
            _added(self._reference, other._reference),
            _added(self._mean, other._mean),
            edges,
        )

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
                name: {str(band): packed(sums) for band, sums in sorted(bands.items())}
                for name, bands in zip(
                    _SUMS, (self._error, self._reference, self._mean), strict=True
                )
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
            error, reference, mean = (
                {int(band): unpacked(text, _SUM, count) for band, text in document[name].items()}
                for name in _SUMS
            )
            edges = unpacked(document["edges"], _EDGE, 4 * count).reshape(4, count)
        except (*UNREADABLE, AttributeError) as error_read:
            raise unreadable("a table of slices") from error_read
        return cls(error, reference, mean, edges)


def _uneven() -> Slices:
    """Slices of batches that had different numbers of them."""
    slices = Slices()
    slices.uneven = True
    return slices


def _slices_last(values: np.ndarray, axis: int) -> np.ndarray:
    """As (samples, values of a slice, slices); NumPy compares float16 slowly."""
    values = values.astype(np.float32) if values.dtype == np.float16 else values
    if values.ndim == 1:
        return values.reshape(-1, 1, 1)
    moved = np.moveaxis(values, axis, -1)
    return moved.reshape(len(values), -1, moved.shape[-1])


def _sums_of(reference: np.ndarray, candidate: np.ndarray, rule: str) -> np.ndarray:
    """Sums of squared errors, squares and values of a piece, by the subscripts of a product."""
    memory = (
        scratch(reference.shape) if reference.size <= CHUNK else np.empty((4, *reference.shape))
    )
    expected, received, error, _ = memory
    np.copyto(expected, reference)
    np.copyto(received, candidate)
    _, _, single = rule.partition(",")
    with np.errstate(over="ignore", under="ignore"):
        np.subtract(received, expected, out=error)
        return np.stack(
            [
                np.einsum(rule, error, error),
                np.einsum(rule, expected, expected),
                np.einsum(single, expected),
            ]
        )


def _places_edges(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The smallest and the largest value of each slice of (samples, slices, values)."""
    found = [
        pick(pick(values, axis=2), axis=0) + 0.0
        for values in (one, other)
        for pick in (np.min, np.max)
    ]
    return np.stack(found).astype(np.float64)


# Rows of slices that are looked at as one long row: NumPy compares long rows many times faster.
_FOLDED = 256


def _edges(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each slice; no zero is negative."""
    rows = values.reshape(-1, values.shape[2])
    whole = len(rows) // _FOLDED * _FOLDED
    long = rows[:whole].reshape(-1, _FOLDED * rows.shape[1])

    def edge(pick: np.ufunc) -> np.ndarray:
        left = rows[whole:]
        if whole:
            left = np.concatenate([pick.reduce(long, axis=0).reshape(_FOLDED, -1), left])
        return pick.reduce(left, axis=0).astype(np.float64) + 0.0

    return edge(np.minimum), edge(np.maximum)


def _banded(sums: np.ndarray) -> Bands:
    """Sums of single samples, (samples, slices), added up exactly as whole numbers."""
    _, exponents = np.frexp(sums)
    bands = exponents // _BAND
    found: Bands = {}
    for band in np.unique(bands[sums != 0]).tolist():
        inside = np.where(bands == band, sums, 0.0)
        whole = np.rint(np.ldexp(inside, _BITS - _BAND * band))
        if not np.isfinite(whole).all():  # a square beyond float64: no finite claim is made
            whole = np.where(np.isfinite(whole), whole, 2.0 ** (_BAND + _BITS))
        found[band] = whole.astype(_SUM).sum(axis=0)
    return found


def _added(one: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray]) -> Bands:
    return {
        band: one.get(band, 0) + other.get(band, 0)  # type: ignore[misc]
        for band in {*one, *other}
    }


def _total(bands: Mapping[int, np.ndarray], count: int) -> np.ndarray:
    total = np.zeros(count)
    for band, sums in sorted(bands.items()):
        total += np.ldexp(sums.astype(np.float64), _BAND * band - _BITS)
    return total
