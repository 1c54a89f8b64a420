"""A table with a row for each distinct sample, in a form that merges exactly and stays small.

Rates and distances of single samples need the samples, not only sums over them. The table keeps
those with the smallest keys, up to `MOST_ROWS`. A key is a hash of the inputs of a sample, so these
rows are a random choice, and the same one however the samples were split and ordered ("bottom-k
sketch", Cohen and Kaplan 2007). Below that number it holds every sample.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from tfmp.converters.shared.errors import InputError
from tfmp.shared.report_files import JsonObject

# About 0.5 MB in memory for a table of four columns.
MOST_ROWS = 20_000

# Pieces that are held before they are sorted into one table: sorting at every batch takes longer
# than the comparison itself.
_MOST_PIECES = 64

_KEY, _COUNT, _VALUE = np.dtype("<u8"), np.dtype("<u4"), np.dtype("<f4")

# What reading a document raises that was cut or changed.
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, OverflowError, zlib.error)


class Written:
    """What has a document of its own, and is equal where its documents are."""

    what: ClassVar[str]

    def to_json(self) -> JsonObject:
        """The document."""
        raise NotImplementedError

    @classmethod
    def read(cls, document: JsonObject) -> Self:
        """What `to_json` gave; raises anything if that was cut or changed."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, document: JsonObject) -> Self:
        """Reads what `to_json` gave; raises `InputError` if it was cut or changed."""
        try:
            return cls.read(document)
        except _UNREADABLE as error:
            raise InputError(
                f"{cls.what} in the report cannot be read; the document was cut or changed. Write "
                "the report again with tfmp-convert."
            ) from error

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({zlib.crc32(repr(self.to_json()).encode()):08x})"

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True)
class Piece:
    """Rows of a table, in any order.

    Attributes:
        keys: uint64, one for each row.
        counts: uint32, the number of samples with that key.
        values: float32 of shape (rows, columns).
    """

    keys: np.ndarray
    counts: np.ndarray
    values: np.ndarray


class Sketch(Written):
    """A row of numbers for each distinct sample; empty without arguments.

    Two samples with the same key are the same inputs. Of their rows, which could differ in labels
    or in the last digit of a result, the one with the smallest bytes is kept.
    """

    what = "a table of samples"

    def __init__(self, pieces: Sequence[Piece] = ()) -> None:
        """Holds pieces; they are sorted when somebody looks."""
        self._pieces = tuple(pieces)

    @classmethod
    def of(cls, keys: np.ndarray, columns: Sequence[np.ndarray]) -> "Sketch":
        """The rows of one batch.

        Args:
            keys: a key for each sample, uint64.
            columns: arrays of one number for each sample.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.stack([np.asarray(column, _VALUE) for column in columns], axis=1)
        values[np.isnan(values)] = np.nan  # one NaN for all: others have other bytes
        return cls([Piece(np.asarray(keys, _KEY), np.ones(len(keys), _COUNT), values + 0)])

    def merged(self, other: "Sketch") -> "Sketch":
        """The rows of both."""
        pieces = (*self._pieces, *other._pieces)
        return Sketch(pieces if len(pieces) <= _MOST_PIECES else [_sorted(pieces)])

    @property
    def keys(self) -> np.ndarray:
        """The keys in ascending order, uint64."""
        return self._table.keys

    @property
    def counts(self) -> np.ndarray:
        """The number of samples behind each row."""
        return self._table.counts

    @property
    def values(self) -> np.ndarray:
        """Numbers of shape (rows, columns), float64, in the order of the keys."""
        return self._table.values.astype(np.float64)

    @property
    def repeated(self) -> float:
        """How often a sample occurs on average: 1 where all are distinct."""
        counts = self.counts
        return float(counts.sum() / len(counts)) if len(counts) else 1.0

    def __len__(self) -> int:
        return len(self._table.keys)

    @cached_property
    def _table(self) -> Piece:
        if not self._pieces:
            return Piece(np.empty(0, _KEY), np.empty(0, _COUNT), np.empty((0, 0), _VALUE))
        return _sorted(self._pieces)

    def to_json(self) -> JsonObject:
        """The table as compressed little-endian bytes, in base 64."""
        table = self._table
        return {
            "rows": len(table.keys),
            "columns": int(table.values.shape[1]),
            "keys": packed(table.keys),
            "counts": packed(table.counts),
            "values": packed(table.values.T),  # columns compress better than rows
        }

    @classmethod
    def read(cls, document: JsonObject) -> "Sketch":
        """See `Written`."""
        rows, columns = int(document["rows"]), int(document["columns"])
        if not (0 <= rows <= MOST_ROWS and 0 <= columns <= 4096):
            raise ValueError(f"a table of {rows} x {columns}")
        keys = unpacked(document["keys"], _KEY, rows)
        counts = unpacked(document["counts"], _COUNT, rows)
        values = unpacked(document["values"], _VALUE, rows * columns)
        if not counts.all() or (keys[1:] <= keys[:-1]).any():
            raise ValueError("rows without samples, or not in order")
        return cls([Piece(keys, counts, values.reshape(columns, rows).T)]) if rows else cls()


def _sorted(pieces: Sequence[Piece]) -> Piece:
    """One piece with a row for each key, in ascending order of the keys."""
    keys = np.concatenate([piece.keys for piece in pieces])
    counts = np.concatenate([piece.counts for piece in pieces])
    width = min(piece.values.shape[1] for piece in pieces)  # samples may have their own lengths
    values = np.concatenate([piece.values[:, :width] for piece in pieces])
    rows, groups = distinct(keys, values)
    added = np.bincount(groups, counts, len(rows)).astype(_COUNT)
    chosen = rows[:MOST_ROWS]
    return Piece(keys[chosen], added[:MOST_ROWS], values[chosen])


def distinct(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of distinct keys, in ascending order, and for each row the place of its key there.

    Of rows of one key it is the one with the smallest bytes, whatever their order.
    """
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(keys[order]) != 0)))
    sizes = np.diff(np.append(starts, len(keys)))
    rows = order[starts]
    for at in np.flatnonzero(sizes > 1).tolist():
        same = order[starts[at] : starts[at] + sizes[at]]
        rows[at] = min(same.tolist(), key=lambda row: values[row].tobytes())
    groups = np.empty(len(keys), int)
    groups[order] = np.repeat(np.arange(len(rows)), sizes)
    return rows, groups


def packed(array: np.ndarray, level: int = 9) -> str:
    """The bytes of an array, compressed at a level of zlib's, and in base 64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), level)).decode()


def unpacked(text: str, dtype: np.dtype, size: int) -> np.ndarray:
    """An array of that many numbers; raises an error if the text was cut or changed."""
    expander = zlib.decompressobj()
    data = expander.decompress(base64.b64decode(text, validate=True), size * dtype.itemsize + 1)
    if len(data) != size * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes, expected {size * dtype.itemsize}")
    return np.frombuffer(data, dtype)
