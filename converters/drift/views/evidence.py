"""Both sides of a random choice of samples, in a form that merges exactly and stays small.

Sums hide what single samples, columns and differences lose; the values themselves do not. Kept are
the samples with the smallest keys (hashes of their inputs: a random choice, and the same one
however the samples were split and ordered), and of large samples some rows of columns at seeded
places, in pairs of neighbours, so that neighbours stay comparable.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tfmp.converters.drift import Written, distinct, packed, unpacked
from tfmp.shared.report_files import JsonObject

# Values of one side: 8 MB for both. Of a sample at least `_LEAST` are kept, if it has them, and at
# most `_MOST`.
MOST_VALUES, _LEAST, _MOST = 2**20, 2**8, 2**14

# Values that wait to be sorted into one table, as a multiple of those that it keeps.
_WAITING = 4

# Seed of the places that are kept.
_SEED = 20260

_KEY, _VALUE = np.dtype("<u8"), np.dtype("<f4")

# A sample's shape, the axis of columns last.
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Samples of one shape.

    Attributes:
        shape: of a sample, the axis of its columns last.
        keys: of the samples, uint64.
        values: float32 of shape (samples, 2, kept): the reference and the candidate, at the first
            of `places_of` the shape.
    """

    shape: Shape
    keys: np.ndarray
    values: np.ndarray

    @property
    def kept(self) -> int:
        """Number of values that are kept of each sample."""
        return int(self.values.shape[2])

    @property
    def whole(self) -> int:
        """Number of values in rows that are kept whole, or of all where columns are too many."""
        row = self.shape[-1]
        return self.kept - self.kept % row if 2 * row <= _LEAST else self.kept

    @property
    def empty(self) -> set[int]:
        """Columns that are NaN on both sides wherever values of them are kept."""
        columns = places_of(self.shape)[: self.kept] % self.shape[-1]
        nan = np.isnan(self.values).all(axis=(0, 1))
        return {*columns[nan].tolist()} - {*columns[~nan].tolist()}


class Evidence(Written):
    """Values of both sides; empty without arguments."""

    what = "a table of values"

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        """Holds parts; they are sorted when somebody looks."""
        self._parts = tuple(parts)

    @classmethod
    def of(
        cls, keys: np.ndarray, reference: np.ndarray, candidate: np.ndarray, axis: int
    ) -> "Evidence":
        """The samples of one batch.

        Args:
            keys: a key for each sample, uint64; samples with the same inputs have the same one.
            reference: real values, batch first.
            candidate: values of the same shape.
            axis: the axis of columns; of outputs with the batch axis alone it is ignored.
        """
        if not reference.size or len(keys) != len(reference):
            return cls()
        sides = [reference, candidate]
        if reference.ndim > 1:
            sides = [np.moveaxis(side, axis, -1) for side in sides]
        shape = sides[0].shape[1:] or (1,)
        places = places_of(shape)[: _kept(len(keys))]
        flat = [side.reshape(len(keys), -1) for side in sides]
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.stack([side[:, places].astype(_VALUE) for side in flat], axis=1)
        values[np.isnan(values)] = np.nan  # one NaN for all: others have other bytes
        return cls([Part(shape, np.asarray(keys, _KEY), values + 0)])

    def merged(self, other: "Evidence") -> "Evidence":
        """The samples of both."""
        parts = (*self._parts, *other._parts)
        waiting = sum(part.values.size for part in parts)
        return Evidence(parts if waiting < _WAITING * 2 * MOST_VALUES else [*_condensed(parts)])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """One part for each shape, each in the order of its keys."""
        return tuple(_condensed(self._parts))

    def __len__(self) -> int:
        return sum(len(part.keys) for part in self.parts)

    def __reduce__(self) -> tuple[object, ...]:
        return Evidence, (self.parts,)

    def to_json(self) -> JsonObject:
        """The values as compressed little-endian bytes, in base 64."""
        return {
            "parts": [
                {
                    "shape": list(part.shape),
                    "rows": len(part.keys),
                    "kept": part.kept,
                    "keys": packed(part.keys),
                    # Columns compress better than rows; more effort saves little of noise.
                    "values": packed(part.values.transpose(1, 2, 0), 1),
                }
                for part in self.parts
            ]
        }

    @classmethod
    def read(cls, document: JsonObject) -> "Evidence":
        """See `Written`."""
        return cls([_read(entry) for entry in document["parts"]])


def _read(entry: JsonObject) -> Part:
    shape = tuple(int(size) for size in entry["shape"])
    rows, kept = int(entry["rows"]), int(entry["kept"])
    small = 0 < rows <= MOST_VALUES // _LEAST and 0 < kept <= min(_MOST, math.prod(shape))
    if not small or min(shape) < 1 or rows * kept > 2 * MOST_VALUES:
        raise ValueError("a table of another size")
    keys = unpacked(entry["keys"], _KEY, rows)
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError("samples twice, or not in order")
    values = unpacked(entry["values"], _VALUE, rows * 2 * kept).reshape(2, kept, rows)
    return Part(shape, keys, values.transpose(2, 0, 1))


@lru_cache(64)
def places_of(shape: Shape) -> np.ndarray:
    """Which values of a sample are kept, the first ones first: places in its flattened values.

    Any number of the first ones is a choice by itself, so that tables of more samples keep fewer.
    Of few columns whole rows are kept, two neighbouring ones at a time; of many, two columns.
    """
    size, columns = math.prod(shape), shape[-1]
    if size <= _LEAST:
        return np.arange(size)
    row = columns if 2 * columns <= _LEAST else 1
    pairs = size // row // 2
    draws = np.random.default_rng(_SEED).integers(0, pairs, 2 * _MOST)
    first = draws[np.sort(np.unique(draws, return_index=True)[1])]
    if len(first) < min(pairs, _MOST):  # of few, all
        rest = np.setdiff1d(np.arange(pairs), first)
        first = np.concatenate([first, np.random.default_rng(_SEED).permutation(rest)])
    rows = (2 * first[:, None] + np.arange(2)).ravel()
    if size // row % 2:
        rows = np.append(rows, size // row - 1)
    return (rows[:, None] * row + np.arange(row)).ravel()[:_MOST]


def _kept(samples: int) -> int:
    """The number of values that so many samples keep of each."""
    each = max(1, MOST_VALUES // max(1, samples))
    return min(_MOST, max(_LEAST, 2 ** (each.bit_length() - 1)))


def _condensed(parts: Sequence[Part]) -> Iterator[Part]:
    """One part for each shape: no more samples and values than may be kept."""
    shapes = sorted({part.shape for part in parts})
    whole = [_sorted([part for part in parts if part.shape == shape]) for shape in shapes]
    if not whole:
        return
    keys = np.unique(np.concatenate([part.keys for part in whole]))[: MOST_VALUES // _LEAST]
    for part in whole:
        chosen = part.keys <= keys[-1]
        width = min(part.kept, _kept(len(keys)), math.prod(part.shape))
        if chosen.any():
            yield Part(part.shape, part.keys[chosen], part.values[chosen][:, :, :width])


def _sorted(parts: Sequence[Part]) -> Part:
    """The samples of parts of one shape in the order of their keys, each once."""
    width = min(part.kept for part in parts)
    keys = np.concatenate([part.keys for part in parts])
    values = np.concatenate([part.values[:, :, :width] for part in parts])
    # Both sides in turns: so the row is the same one however many values are kept.
    rows, _ = distinct(keys, values.transpose(0, 2, 1))
    return Part(parts[0].shape, keys[rows], values[rows])
